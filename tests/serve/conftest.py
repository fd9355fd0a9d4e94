"""A small checkpoint's text files, made once, and the loop that tests of the server run on."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from tests.serve.http.scripted import write_text

    made = tmp_path_factory.mktemp("served")
    write_text(made)
    return made


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"

"""A small checkpoint's text files, and reproducible chance."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests.serve.http.scripted import write_text


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("served")
    write_text(made)
    return made


@pytest.fixture
def chance() -> random.Random:
    return random.Random(0)


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"

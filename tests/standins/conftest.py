"""Fixtures of the stand-ins' own tests."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.standins.subjects import Done, Subjects

Run = Callable[..., Done]


@pytest.fixture(scope="session")
def subjects() -> Iterator[Subjects]:
    """One forking process for all tests."""
    with Subjects() as found:
        yield found


@pytest.fixture
def run(subjects: Subjects, tmp_path: Path) -> Run:
    """Run code under the stand-ins in this test's folder: run(code, NAME=value, ...)."""
    return lambda code, **variables: subjects.run(code, tmp_path, **variables)

"""One demo checkpoint for all tests of a session, trained for a few steps only (about six seconds of two cores)."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import recipes.tiny  # noqa: F401  (before torch: it says how torch's threads wait for each other)
from config.geometry import geometry_path

STEPS = 10
SEED = 7


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    """The folder, which tests must leave as it is, and the facts of its build."""
    from recipes.tiny.build import build_tiny

    folder = tmp_path_factory.mktemp("tiny")
    return folder, build_tiny(folder, geometry=geometry_path("tiny"), seed=SEED, steps=STEPS)


@pytest.fixture
def copied(tiny: tuple[Path, dict[str, Any]], tmp_path: Path) -> Callable[[], Path]:
    """Make a copy of the checkpoint that a test may damage."""

    def copy() -> Path:
        return Path(shutil.copytree(tiny[0], tmp_path / "checkpoint"))

    return copy

"""One random model and its artifacts for the whole session: each variant is compiled once."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import settings

if TYPE_CHECKING:
    from serve.manifest import Point

# A deadline measures how busy the machine is.
settings.register_profile("shared", deadline=None)
settings.load_profile("shared")

pytest_plugins = ("tests.aws",)
ArtifactOf = Callable[["Point"], Path]
# Their files share what is built once for a session, and so the worker that runs them.
TOGETHER = ("serve/neuron",)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """A file is one worker's work; so is a folder of `TOGETHER`."""
    for item in items:
        file = item.path.relative_to(Path(__file__).parent)
        name = next((folder for folder in TOGETHER if file.is_relative_to(folder)), str(file))
        item.add_marker(pytest.mark.xdist_group(name))


@pytest.fixture(scope="session")
def random_model() -> Any:
    """transformers' own model with the random weights that every artifact here is built from."""
    from tests.build import TEXT_CONFIG, random_model

    return random_model(TEXT_CONFIG, seed=0)


@pytest.fixture(scope="session")
def artifact_of(random_model: Any, tmp_path_factory: pytest.TempPathFactory) -> ArtifactOf:
    """The artifact folder of a variant, built when it is first asked for; read only."""
    from tests.build import build_artifact

    folder = tmp_path_factory.mktemp("random")
    return cache(lambda variant: build_artifact(folder, random_model, variant))


@pytest.fixture(scope="session")
def artifact(artifact_of: ArtifactOf) -> Path:
    """The artifact of the usual variant: float32, 44 rows, buckets of 8, a window of 12 in a ring of 20."""
    from tests.build import point

    return artifact_of(point())

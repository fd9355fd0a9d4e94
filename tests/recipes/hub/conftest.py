"""A Hub with a checkpoint, and a client that finds it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from config.sources import HubSource
from tests.hub import Hub
from tests.recipes.hub.subject import CARD, WEIGHTS, uploaded


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    """A Hub that the client of this process takes for the real one; nobody is logged in."""
    with Hub(tmp_path / "hub") as one:
        for name, value in {
            "ENDPOINT": one.endpoint,
            "HUGGINGFACE_CO_URL_TEMPLATE": one.endpoint + "/{repo_id}/resolve/{revision}/{filename}",
            "HF_HUB_CACHE": str(tmp_path / "cache"),
            "HF_TOKEN_PATH": str(tmp_path / "token"),
            "HF_HUB_DISABLE_XET": True,
        }.items():
            monkeypatch.setattr(f"huggingface_hub.constants.{name}", value)
        monkeypatch.delenv("HF_TOKEN", raising=False)
        yield one


@pytest.fixture
def source(hub: Hub, tmp_path: Path) -> HubSource:
    """A repository with a card, weights, and files that no checkpoint needs, at its newest commit."""
    files = {
        "README.md": CARD,
        "config.json": b'{"model_type": "gemma4"}',
        "model.safetensors": WEIGHTS,
        "notes.txt": b"mine",
        "onnx/model.safetensors": b"another" * 100,
    }
    for name, content in files.items():
        path = tmp_path / "upload" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    return uploaded(hub, tmp_path / "upload")


@pytest.fixture
def waits(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Seconds between tries, which are not really waited."""
    seconds: list[float] = []
    monkeypatch.setattr("recipes.hub.transfer.time", SimpleNamespace(sleep=seconds.append))
    return seconds

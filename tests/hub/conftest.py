"""A Hub of its own for every test, and the unmodified client that talks to it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
from huggingface_hub import HfApi

from tests.hub import Hub

REPO = "foundry/model"


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    """Large files above 100,000 bytes come in parts; the tree comes in pages of four."""
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_DISABLE_XET", True)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "cache"))
    with Hub(tmp_path / "hub", part_size=100_000, page=4) as one:
        yield one


@pytest.fixture
def api(hub: Hub) -> HfApi:
    """The client as the Hub's maker, whose repository is there already."""
    found = HfApi(endpoint=hub.endpoint, token=hub.token)
    found.create_repo(REPO)
    hub.forget()
    return found


@pytest.fixture
def waits(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Seconds that the client waits between its tries; here it does not really wait."""
    seconds: list[float] = []
    for module in ("utils._http", "file_download"):
        monkeypatch.setattr(f"huggingface_hub.{module}.time", SimpleNamespace(sleep=seconds.append))
    return seconds


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Regular and large files: one in three parts, one in one piece, one binary that no pattern names, one empty."""
    made = tmp_path / "folder"
    (made / "graphs").mkdir(parents=True)
    (made / "README.md").write_text("---\nlicense: apache-2.0\ntags: [tiny]\n---\n# A model\n")
    (made / "config.json").write_text("{}\n")
    (made / "empty.txt").write_bytes(b"")
    (made / "model.safetensors").write_bytes(bytes(range(256)) * 1000)
    (made / "graphs" / "decode.bin").write_bytes(b"decode" * 5000)
    (made / "graphs" / "a name.exe").write_bytes(b"\0\1\2" * 100)
    return made

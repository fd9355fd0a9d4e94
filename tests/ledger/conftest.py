"""A store and a stage in a temporary folder, receipts to vary, and a spy on what is flushed and renamed."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ledger.receipts import Receipt
from ledger.store import Store
from tests.ledger.bench import Bench

MakeReceipt = Callable[..., Receipt]


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "store")


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


@pytest.fixture
def make_receipt() -> MakeReceipt:
    def make(**changes: Any) -> Receipt:
        whole: dict[str, Any] = {
            "stage": "lower",
            "key": "ab" * 32,
            "recipe": {"kv_max": 512},
            "inputs": {"fetch": "cd" * 32},
            "outputs": {},
            "facts": {"layers": 4},
            "measured": {"stage_seconds": 1.5},
            "toolchain": {"python": "3.11"},
            "source": "ef" * 32,
            "verdict": "done",
        }
        return Receipt.model_validate(whole | changes)

    return make


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str]]:
    """What is flushed and renamed, in order, by name."""
    seen: list[tuple[str, str]] = []
    fsync, replace, rename = os.fsync, os.replace, os.rename

    def spy_fsync(descriptor: int) -> None:
        fsync(descriptor)
        seen.append(("fsync", Path(f"/proc/self/fd/{descriptor}").readlink().name))

    def spy_replace(source: Any, target: Any) -> None:
        replace(source, target)
        seen.append(("rename", Path(target).name))

    def spy_rename(source: Any, target: Any) -> None:
        rename(source, target)
        seen.append(("rename", Path(target).name))

    monkeypatch.setattr(os, "fsync", spy_fsync)
    monkeypatch.setattr(os, "replace", spy_replace)
    monkeypatch.setattr(os, "rename", spy_rename)
    return seen

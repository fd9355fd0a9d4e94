"""A run of config/smoke.yaml that has left receipts, and `recipes.recover` after it."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from ledger.receipts import Receipt
from ledger.sources import ROOT
from ledger.store import Store
from recipes import recover

SMOKE = ROOT / "config" / "smoke.yaml"


def run(*configs: Path, flags: Sequence[str] = ()) -> int:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["recover", *map(str, configs or (SMOKE,)), "--snakemake", *flags])
        return recover.main()


class Run:
    """What a run of config/smoke.yaml leaves in the working directory."""

    def __init__(self) -> None:
        self.store = Store(Path("results/store"))
        self.receipts = Path("results/smoke/receipts/demo")

    def leave(self, name: str, content: bytes) -> Path:
        """A receipt with one output; returns the output's object."""
        ref = self.store.put_bytes(content)
        receipt = Receipt(
            **{"stage": "lower", "key": "0" * 64, "recipe": {}, "inputs": {}, "outputs": {"graph": ref}, "facts": {}},
            **{"measured": {}, "toolchain": {}, "source": "", "verdict": "done"},
        )
        receipt.write(self.receipts / name)
        return self.store.path(ref)

    def left(self) -> set[str]:
        return {path.relative_to(self.receipts).as_posix() for path in self.receipts.rglob("*.json")}

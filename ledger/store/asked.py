"""What a stage was asked, in full: a key is a digest of it, and says nothing by itself.

Kept when the stage begins, and so also for a run that failed or was killed: while it is young, `collect` leaves what
the stage works on. Source files and where the receipt goes are no part of the key: they are here for a person who
wonders why something was built again.
"""

from __future__ import annotations

from pathlib import PurePath
from typing import Any, Self

from pydantic import BaseModel, ConfigDict

from ledger.receipts import Sha256, StageName, parse_model

FOLDER = "asked"
_PARTS = 3  # of the receipt's path: results/demo/receipts/[demo/512-128/compile.json]


class Asked(BaseModel):
    """One question to a stage."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    key: Sha256
    stage: StageName
    recipe: dict[str, Any]
    inputs: dict[str, Sha256]
    toolchain: dict[str, str]
    source: str
    # The key of each input's own run, the sha256 of each file of the source, and the end of the receipt's path.
    input_keys: dict[str, Sha256] = {}
    files: dict[str, Sha256] = {}
    place: str = ""

    @property
    def name(self) -> str:
        """Its name in a store."""
        return asked_name(self.stage, self.key)

    @classmethod
    def parse(cls, data: bytes, origin: str) -> Self:
        """The question that `data` holds; BadInput names `origin` if it is damaged."""
        return parse_model(cls, data, origin)


def asked_name(stage: str, key: str) -> str:
    """The name in a store of what `stage` was asked under `key`."""
    return f"{FOLDER}/{stage}/{key}.json"


def place(receipt: PurePath) -> str:
    """The end of a receipt's path, which is the same on every machine."""
    return "/".join(receipt.parts[-_PARTS:])

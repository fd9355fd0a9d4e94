"""What the page reads of a receipt's facts, checked when the receipt is read: a damaged one is named, not drawn."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from ledger.errors import BadInput, explain
from ledger.receipts import Receipt


class _Open(BaseModel):
    model_config = ConfigDict(strict=True)


class _Parity(_Open):
    prompts: int
    tokens: int
    mismatches: list[dict[str, Any]]
    exemptions: list[dict[str, Any]]
    agreement: float | None = None
    epsilon: float | None = None
    logprob_tolerance: float | None = None
    heldout: dict[str, Any] | None = None


class _Measured(_Open):
    stage_seconds: float | None = None


def check_facts(receipt: Receipt, path: Path) -> None:
    """BadInput naming the file and the first key that is not what its stage writes."""
    try:
        where = f"{path}: measured"
        _Measured.model_validate(receipt.measured)
        where = f"{path}: facts"
        if receipt.stage == "parity":
            _Parity.model_validate(receipt.facts)
    except ValidationError as error:
        raise BadInput(explain(error, where)) from None

"""What table and page read of a receipt, checked when it is read: a damaged one is named, not drawn."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError

from ledger.errors import BadInput, explain
from ledger.receipts import Receipt
from validate.rows import MEASURED, SIZES

_FIGURES = TypeAdapter(dict[str, float | None], config=ConfigDict(strict=True))


class _Open(BaseModel):
    model_config = ConfigDict(strict=True)


class _Exemption(_Open):
    check: str
    prompt: str
    position: int
    expected: int
    got: int
    gap: float


class _Parity(_Open):
    prompts: int
    tokens: int
    mismatches: list[dict[str, Any]]
    exemptions: list[_Exemption]
    agreement: float | None = None
    epsilon: float | None = None
    logprob_tolerance: float | None = None
    heldout: dict[str, Any] | None = None


class _Variant(_Open):
    name: str
    target: str
    dtype: str
    tp: int
    batch: int
    kv_max: int
    kv_bucket: int
    slim: bool


class _Assemble(_Open):
    variant: _Variant


def check_facts(receipt: Receipt, path: Path) -> None:
    """BadInput naming the file and the first key that is not what its stage writes."""
    try:
        where = f"{path}: measured"
        _check_figures(receipt.measured, ("stage_seconds", *MEASURED))
        where = f"{path}: facts"
        match receipt.stage:
            case "parity":
                _Parity.model_validate(receipt.facts)
            case "bench":
                _check_figures(receipt.facts, SIZES)
            case "assemble":
                where = f"{path}: recipe"
                _Assemble.model_validate(receipt.recipe)
    except ValidationError as error:
        raise BadInput(explain(error, where)) from None


def _check_figures(found: Mapping[str, Any], names: Iterable[str]) -> None:
    _FIGURES.validate_python({name: found.get(name) for name in names})

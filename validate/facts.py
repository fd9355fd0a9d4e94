"""What table and page read of a receipt, checked when it is read: a damaged one is named, not drawn."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from ledger.errors import BadInput, explain
from ledger.receipts import Receipt


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


class _Bench(_Open):
    size_mb: float | None = None
    added_mb: float | None = None


class _Measured(_Open):
    stage_seconds: float | None = None
    ttft_ms: float | None = None
    prefill_tok_s: float | None = None
    decode_tok_s: float | None = None
    transformers_decode_tok_s: float | None = None
    decode_vs_transformers: float | None = None
    batch_tok_s: float | None = None
    transformers_batch_tok_s: float | None = None
    read_gb_s: float | None = None
    load_s: float | None = None
    peak_rss_mb: float | None = None


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
        _Measured.model_validate(receipt.measured)
        where = f"{path}: facts"
        match receipt.stage:
            case "parity":
                _Parity.model_validate(receipt.facts)
            case "bench":
                _Bench.model_validate(receipt.facts)
            case "assemble":
                where = f"{path}: recipe"
                _Assemble.model_validate(receipt.recipe)
    except ValidationError as error:
        raise BadInput(explain(error, where)) from None

"""A variant's receipts as one flat object, with the keys that machines read; what was not measured is null."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from config.sdk import foreign
from ledger.receipts import Receipt

STAGES = ("compile", "assemble", "parity", "bench")
_POINT = ("target", "dtype", "tp", "batch", "kv_max", "kv_bucket", "slim")
MEASURED = (
    "ttft_ms",
    "prefill_tok_s",
    "decode_tok_s",
    "transformers_decode_tok_s",
    "decode_vs_transformers",
    "batch_tok_s",
    "transformers_batch_tok_s",
    "read_gb_s",
    "load_s",
    "peak_rss_mb",
)
SIZES = ("size_mb", "added_mb")

Row = dict[str, Any]


def row(checkpoint: str, point: Mapping[str, Any], receipts: Mapping[str, Receipt]) -> Row:
    """The object of one variant: `point` has its configuration, `receipts` those of STAGES and fetch that exist."""
    bench = receipts.get("bench")
    return {
        "variant": point["name"],
        "checkpoint": checkpoint,
        **{key: point[key] for key in _POINT},
        "foreign_sdk": foreign(receipts["compile"].toolchain) if "compile" in receipts else None,
        "parity": _parity(receipts.get("parity")),
        **{key: bench.measured.get(key) if bench else None for key in MEASURED},
        **{key: bench.facts.get(key) if bench else None for key in SIZES},
        "digests": _digests(receipts),
    }


def _parity(receipt: Receipt | None) -> dict[str, Any]:
    if receipt is None:
        return dict.fromkeys(("prompts", "tokens", "mismatches", "exemptions")) | {"verdict": "missing"}
    facts = receipt.facts
    return {
        "prompts": facts["prompts"],
        "tokens": facts["tokens"],
        "mismatches": len(facts["mismatches"]),
        "exemptions": len(facts["exemptions"]),
        "verdict": receipt.verdict,
    }


def _digests(receipts: Mapping[str, Receipt]) -> dict[str, str | None]:
    """What names the artifact (its manifest's sha256), and the receipts behind the figures."""
    assembled = receipts.get("assemble")
    manifest = assembled.outputs.get("manifest.json") if assembled else None
    return {
        "artifact": manifest.sha256 if manifest else None,
        "oracle": receipts["parity"].inputs.get("oracle") if "parity" in receipts else None,
        **{stage: receipts[stage].digest if stage in receipts else None for stage in ("fetch", "parity", "bench")},
    }

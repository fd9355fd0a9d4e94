"""A run made up from receipts that name each other by digest, as stages would write them, without running one."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ledger.receipts import Receipt, Ref, Verdict
from ledger.store import Store

POINT: dict[str, Any] = {"batch": 1, "dtype": "float32", "kv": "device", "slim": False, "target": "cpu", "tp": 1}
GAPS = [0.0, 0.004, 0.03, 0.08, 0.3, 0.9, 1.1, 1.2, 1.6, 2.5, 4.0, 7.5]
EXEMPT = {"check": "oracle", "prompt": "chat-a", "position": 3, "expected": 7, "got": 8, "gap": 0.03}
MISMATCH = EXEMPT | {"position": 9, "gap": 2.5}
CONTEXTS: list[dict[str, Any]] = [
    {"tokens": 32, "decode_tok_s": 3400.0, "transformers_decode_tok_s": 330.0},
    {"tokens": 128, "decode_tok_s": 3300.0, "transformers_decode_tok_s": 300.0},
    {"tokens": 448, "decode_tok_s": 3000.0, "transformers_decode_tok_s": None},
]
MEASURED: dict[str, Any] = {
    "ttft_ms": 3.21,
    "prefill_tok_s": 9000.0,
    "decode_tok_s": 3300.0,
    "step_ms": {"median": 0.3, "p5": 0.29, "p95": 0.4},
    "transformers": {
        "sdpa": {"ttft_ms": 9.9, "decode_tok_s": 300.0},
        "eager": {"reason": "could not run"},
    },
    "transformers_best": "sdpa",
    "transformers_decode_tok_s": 300.0,
    "decode_vs_transformers": 11.0,
    "load_s": 0.8,
    "peak_rss_mb": 217.0,
    "threads": 2,
    "cpus": 2,
    "contexts": CONTEXTS,
    "read_gb_s": 40.0,
}


class Made:
    """A run in `root`: the receipts of `results/NAME/receipts/CHECKPOINT` and the store beside them."""

    def __init__(self, root: Path, name: str = "made", checkpoint: str = "demo") -> None:
        self.store = Store(root / "results" / "store")
        self.receipts = root / "results" / name / "receipts"
        self.checkpoint = checkpoint
        self.variants: list[str] = []
        self._made: dict[str, Receipt] = {}
        self.write("fetch", outputs={"config.json": b"{}"}, toolchain={"torch": "2.8.0"})
        self.write("tables", after=["fetch"])
        self.write("weights/cpu-float32-tp1", after=["fetch"])
        self.write("prompts/512-128", after=["fetch"])
        self.oracle(GAPS)

    def path(self, name: str) -> Path:
        """Where the receipt `name` lies."""
        return self.receipts / self.checkpoint / f"{name}.json"

    def write(
        self, name: str, *, after: list[str] | None = None, outputs: Mapping[str, bytes] | None = None, **fields: Any
    ) -> Receipt:
        """Write one receipt, made from those of `after`."""
        head, _, last = name.rpartition("/")
        verdict: Verdict = fields.get("verdict", "done")
        inputs = {one if name == "package" else _label(one): self._made[one].digest for one in after or ()}
        refs: dict[str, Ref] = {key: self.store.put_bytes(data) for key, data in (outputs or {}).items()}
        receipt = Receipt(
            stage=head if head in ("weights", "prompts", "oracle") else last,
            key="0" * 64,
            recipe=fields.get("recipe", {}),
            inputs=inputs,
            outputs=refs,
            facts=fields.get("facts", {"place": name}),
            measured=fields.get("measured", {"stage_seconds": 1.5}),
            toolchain={"python": "3.11"} | fields.get("toolchain", {}),
            source="5" * 64,
            verdict=verdict,
        )
        path = self.path(name)
        receipt.write(path.with_suffix(".failed.json") if verdict == "failed" else path)
        self._made[name] = receipt
        return receipt

    def oracle(self, gaps: list[float]) -> None:
        """The oracle of size 512-128, with one answer that has these gaps."""
        self.write("oracle/512-128", after=["fetch", "prompts/512-128"], verdict="passed")
        ref = self.store.put_json({"answers": [{"gaps": gaps}], "heldout": []})
        receipt = self._made["oracle/512-128"].model_copy(update={"outputs": {"oracle.json": ref}})
        receipt.write(self.path("oracle/512-128"))
        self._made["oracle/512-128"] = receipt

    def variant(self, name: str, *, parity: Mapping[str, Any] | None = None, **point: Any) -> None:
        """All receipts of a variant; one whose parity has mismatches ends there."""
        told = POINT | {"name": name, "kv_max": 512, "kv_bucket": 128} | point
        shape = {key: value for key, value in told.items() if key not in ("name", "slim", "kv")}
        self.variants.append(name)
        self.write(f"{name}/lower", after=["fetch"], recipe=shape, facts={"instructions": 4000})
        self.write(f"{name}/compile", after=[f"{name}/lower"])
        parts = ["fetch", "tables", "weights/cpu-float32-tp1", f"{name}/lower", f"{name}/compile"]
        outputs = {"manifest.json": name.encode()}
        self.write(f"{name}/assemble", after=parts, recipe={"variant": told}, outputs=outputs)
        facts: dict[str, Any] = {
            **{"prompts": 74, "tokens": 8960, "agreement": 1.0, "mismatches": [], "exemptions": []},
            **{"epsilon": 0.1 if told["dtype"] == "bfloat16" else 0.0, "logprob_tolerance": 0.001},
            "heldout": {"tokens": 130, "agreement": 1.0, "logprob_difference": {"mean": 1e-6, "max": 2e-6}},
        }
        facts |= parity or {}
        failed = bool(facts["mismatches"])
        judged = [f"{name}/assemble", "oracle/512-128", "prompts/512-128"]
        self.write(f"{name}/parity", after=judged, facts=facts, verdict="failed" if failed else "passed")
        if not failed:
            self.bench(name)

    def bench(self, name: str, **measured: Any) -> None:
        """The figures of a variant."""
        facts = {"size_mb": 11.5, "added_mb": 2.35, "prompt_tokens": 64, "new_tokens": 64, "step_bytes": 8_000_000}
        after = ["fetch", f"{name}/assemble", f"{name}/parity"]
        self.write(f"{name}/bench", after=after, facts=facts, measured=MEASURED | measured)

    def package(self) -> None:
        """The release of every variant."""
        own = [
            f"{name}/{stage}" for name in self.variants for stage in ("lower", "compile", "assemble", "parity", "bench")
        ]
        shared = ["fetch", "tables", "weights/cpu-float32-tp1"]
        self.write("package", after=[*shared, *own], outputs={"release.json": b"{}", "LICENSE": b"-"})

    def forget(self, name: str) -> None:
        """Take a receipt away, as if its stage had never run."""
        self.path(name).unlink()


def finished(root: Path) -> Made:
    """Two variants that passed, one of them with the exemption, and a release."""
    made = Made(root)
    made.variant("512-128")
    made.variant("bf16", dtype="bfloat16", parity={"exemptions": [EXEMPT]})
    made.package()
    return made


def _label(name: str) -> str:
    head, _, last = name.rpartition("/")
    return head if head in ("weights", "prompts", "oracle") else last

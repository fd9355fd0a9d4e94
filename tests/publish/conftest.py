"""A line in miniature: a store with what the stages before package would have left for two variants."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from config.variant import Target
from ledger.digest import digest_json, sha256_bytes
from ledger.receipts import Receipt, Ref, Verdict
from ledger.store import Store
from serve.manifest import (
    FileRef,
    Graph,
    GraphName,
    Manifest,
    Model,
    Output,
    Parameter,
    Point,
    Signature,
    Tokens,
)

EXEMPTION = {"check": "oracle", "prompt": "emoji", "position": 7, "expected": 11, "got": 12, "gap": 0.125}
BENCH: dict[str, Any] = {
    "ttft_ms": 12.5,
    "prefill_tok_s": 4321.0,
    "decode_tok_s": 987.0,
    "step_ms": {"median": 1.01, "p5": 0.9, "p95": 1.2},
    "transformers": {"eager": {"decode_tok_s": 100.0}},
    "transformers_best": "eager",
    "transformers_decode_tok_s": 100.0,
    "decode_vs_transformers": 9.87,
    "load_s": 1.25,
    "peak_rss_mb": 345.6,
    "threads": 2,
    "cpus": 2,
    "cpu_model": "Example CPU 1234",
}
FACTS: dict[str, Any] = {"revision": "5" * 64, "licence": "apache-2.0"}
BIG = b"w" * (2 << 20)


@dataclass
class Line:
    """Receipts by the name that package gets them under."""

    store: Store
    inputs: dict[str, Receipt] = field(default_factory=dict)

    def record(self, name: str, *, inputs: tuple[str, ...] = (), verdict: Verdict = "done", **made: Any) -> None:
        """Leave the receipt `name` ("variant/stage" or "stage") as its stage would."""
        receipt = Receipt(
            stage=name.rpartition("/")[2],
            key=sha256_bytes(name.encode()),
            recipe={},
            inputs={one.rpartition("/")[2]: self.inputs[one].digest for one in inputs},
            outputs=made.get("outputs", {}),
            facts=made.get("facts", {}),
            measured=made.get("measured", {}),
            toolchain={"python": "3.11", **made.get("toolchain", {})},
            source="0" * 64,
            verdict=verdict,
        )
        self.inputs[name] = receipt
        if verdict != "failed":
            self.store.record_action(receipt)

    def change(self, name: str, **changes: Any) -> None:
        """Edit a receipt behind the back of its stage."""
        self.inputs[name] = self.inputs[name].model_copy(update=changes)

    def record_variant(self, name: str, exemptions: list[dict[str, Any]], target: Target = "cpu") -> None:
        """Everything about one variant."""
        graphs = {
            f"{graph}.stablehlo": self.store.put_bytes(f"{name} {graph}".encode()) for graph in ("prefill", "decode")
        }
        described = manifest_of(name, graphs, self.inputs, target)
        manifest = self.store.put_bytes(described.model_dump_json().encode())
        parity = {
            "prompts": 64,
            "tokens": 8192,
            "agreement": 1.0,
            "heldout": {"tokens": 2048, "agreement": 0.75, "logprob_difference": {"mean": 1e-6, "max": 2.5e-6}},
            "logprob_tolerance": 1e-3,
            "mismatches": [],
            "exemptions": exemptions,
            "epsilon": 0.5 if exemptions else 0.0,
            "selfcheck": {"prompt": [2, 7, 5], "tokens": [8, 6, 8]},
            "artifact": manifest.sha256,
        }
        self.record(f"{name}/lower", inputs=("fetch",))
        self.record(f"{name}/compile", inputs=(f"{name}/lower",), outputs=graphs)
        self.record(
            f"{name}/assemble",
            inputs=("fetch", f"{name}/lower", f"{name}/compile"),
            outputs={"manifest.json": manifest},
        )
        self.record(f"{name}/parity", inputs=(f"{name}/assemble",), facts=parity, verdict="passed")
        self.record_bench(name)

    def record_bench(self, name: str, **changes: Any) -> None:
        """The figures of a variant."""
        figures = BENCH | changes
        sizes = {"prompt_tokens": 96, "size_mb": 17.5, "added_mb": 3.25, "measurement": digest_json(figures)}
        measured = figures | {"stage_seconds": 1.5}
        self.record(f"{name}/bench", inputs=(f"{name}/assemble", f"{name}/parity"), facts=sizes, measured=measured)


def manifest_of(name: str, graphs: dict[str, Ref], inputs: dict[str, Receipt], target: Target = "cpu") -> Manifest:
    """A manifest that names the objects of the miniature line."""

    def file(path: str, ref: Ref) -> FileRef:
        return FileRef(path=path, sha256=ref.sha256, bytes=ref.bytes)

    def graph(which: GraphName) -> Graph:
        signature = Signature(
            graph=which,
            batch=1,
            tokens=1,
            parameters=(Parameter(name="x", role="input", shape=(1,), dtype="float32"),),
            outputs=(Output(name="logits", role="logits", shape=(1, 9), dtype="float32"),),
            aliases={},
        )
        module = f"{which}.stablehlo"
        return Graph(signature=signature, modules=(file(module, graphs[module]),))

    fetch = inputs["fetch"].outputs
    return Manifest(
        checkpoint="demo",
        revision=FACTS["revision"],
        licence="apache-2.0",
        variant=Point(
            name=name, kv_max=64, kv_bucket=16, tp=1, batch=1, slim=False, dtype="float32", kv="device", target=target
        ),
        model=Model(hidden_size=8, layers=2, ple_width=0, vocab_size=9, sliding_window=4),
        tokens=Tokens(bos=2, stop=(1,), suppress=()),
        ring=20,
        graphs={"prefill": graph("prefill"), "decode": graph("decode")},
        weights=(
            file("../../weights/cpu-float32/tp1-rank0.safetensors", inputs["weights"].outputs["rank0.safetensors"]),
        ),
        tables=file("../../tables/tables.safetensors", inputs["tables"].outputs["tables.safetensors"]),
        tokenizer={"tokenizer.json": file("../../tokenizer.json", fetch["tokenizer.json"])},
        toolchain={"jaxlib": "0"},
    )


@pytest.fixture
def line(tmp_path: Path) -> Line:
    """Two variants, both passed: "512-128" exactly, "bf16" with one exemption."""
    return make_line(tmp_path)


def make_line(folder: Path) -> Line:
    """What `line` is, with its store in `folder`."""
    store = Store(folder / "store")
    line = Line(store)
    kept = ("config.json", "generation_config.json", "tokenizer.json", "chat_template.jinja")
    dropped = ("model-00001-of-00002.safetensors", "model.safetensors.index.json")
    files = {name: store.put_bytes(name.encode()) for name in (*kept, *dropped)}
    line.record("fetch", outputs=files, facts=FACTS)
    line.record("weights", outputs={"rank0.safetensors": store.put_bytes(BIG)})
    line.record("tables", outputs={"tables.safetensors": store.put_bytes(b"tables")})
    line.record_variant("512-128", [])
    line.record_variant("bf16", [EXEMPTION])
    return line

"""Stage assemble: a variant's compiled graphs, signatures and shared files become an artifact, told by its manifest.

With --build the folder is filled too: DIR/variants/<variant>/ holds links into the store; weights, tables and tokenizer
are linked beside it once for all variants. The manifest names them by relative path and digest, and the release folder
has the same shape, so the manifest's digest is the artifact's name in both places.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from pydantic import BaseModel, ConfigDict

from config.builders import inlines_weights
from ledger.errors import run_cli
from ledger.flags import Parser, check_folder
from ledger.receipts import Receipt
from ledger.stage import Job, Outcome, run_stage
from ledger.store import Ref, Store
from recipes.artifact import lay_out
from serve.manifest import (
    GRAPHS,
    MANIFEST,
    FileRef,
    Graph,
    GraphName,
    Manifest,
    Model,
    Neuron,
    Point,
    Signature,
    Tokens,
)

TOKENIZER_FILES = re.compile(r"tokenizer\.json|tokenizer_config\.json|chat_template\.jinja|generation_config\.json")


class AssembleRecipe(BaseModel):
    """The variant and the checkpoint's name."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    checkpoint: str
    variant: Point


def assemble(job: Job[AssembleRecipe]) -> Manifest:
    """Everything the variant needs, by its place relative to the variant's folder."""
    point = job.recipe.variant
    fetch, weights, tables = (job.inputs[name] for name in ("fetch", "weights", "tables"))
    config = job.store.read_json(fetch.outputs["config.json"])["text_config"]
    weight_files = (
        _placed(f"../../weights/{point.target}-{point.dtype}/tp{point.tp}-{name}", ref)
        for name, ref in sorted(weights.outputs.items())
        if not inlines_weights(point.builder)
    )
    return Manifest(
        checkpoint=job.recipe.checkpoint,
        revision=fetch.facts["revision"],
        licence=fetch.facts["licence"],
        variant=point,
        model=Model(
            hidden_size=config["hidden_size"],
            layers=config["num_hidden_layers"],
            ple_width=config["hidden_size_per_layer_input"],
            vocab_size=config["vocab_size"],
            sliding_window=config["sliding_window"],
        ),
        tokens=Tokens(bos=fetch.facts["bos"], stop=fetch.facts["stop_ids"], suppress=fetch.facts["suppress_tokens"]),
        ring=job.inputs["lower"].facts["ring"],
        graphs=_graphs(point.target, job.inputs, job.store),
        weights=tuple(weight_files),
        tables=_placed("../../tables/tables.safetensors", tables.outputs["tables.safetensors"]),
        tokenizer={
            name: _placed(f"../../{name}", ref)
            for name, ref in sorted(fetch.outputs.items())
            if TOKENIZER_FILES.fullmatch(name)
        },
        toolchain=job.inputs["lower"].toolchain | job.inputs["compile"].toolchain,
        neuron=Neuron.model_validate(job.inputs["compile"].facts["neuron"]) if point.target == "inf2" else None,
    )


def _placed(path: str, ref: Ref) -> FileRef:
    return FileRef(path=path, sha256=ref.sha256, bytes=ref.bytes)


def _graphs(target: str, inputs: Mapping[str, Receipt], store: Store) -> dict[GraphName, Graph]:
    lowered, compiled = inputs["lower"].outputs, inputs["compile"]
    graph = _cpu_graph if target == "cpu" else _neuron_graph
    found: dict[GraphName, Graph] = {}
    for name in compiled.facts.get("graphs", GRAPHS):
        signature = Signature.model_validate(store.read_json(lowered[f"{name}.signature.json"]))
        found[name] = graph(signature, compiled)
    return found


def _cpu_graph(signature: Signature, compiled: Receipt) -> Graph:
    name = signature.graph
    return Graph(
        signature=signature,
        modules=(_placed(f"{name}.stablehlo", compiled.outputs[f"{name}.stablehlo"]),),
        executable=_placed(f"{name}.xla", compiled.outputs[f"{name}.xla"]),
        cpu_features=compiled.facts["cpu_features"],
        flags=compiled.recipe.get("flags", ()),
    )


def _neuron_graph(signature: Signature, compiled: Receipt) -> Graph:
    paths = compiled.facts["modules"][signature.graph]
    return Graph(signature=signature, modules=tuple(_placed(path, compiled.outputs[path]) for path in paths))


def work(job: Job[AssembleRecipe]) -> Outcome:
    """The manifest, which is all that is made: every other file of the artifact is in the store already."""
    data = (assemble(job).model_dump_json(indent=1) + "\n").encode()
    return Outcome(outputs={MANIFEST: job.store.put_bytes(data)})


def build(job: Job[AssembleRecipe], folder: Path) -> Outcome:
    """`work`, and the artifact in the build tree `folder`."""
    outcome = work(job)
    lay_out(outcome.outputs[MANIFEST], job.store, folder)
    return outcome


def main() -> int:
    """The stage; --build says where the build tree is, if there is to be one."""
    parser = Parser("assemble", add_help=False)
    parser.add_argument("--build", type=Path, metavar="DIR")
    options, rest = parser.parse_known_args()
    if options.build:
        check_folder("--build", options.build)
    return run_stage(
        "assemble",
        AssembleRecipe,
        (lambda job: build(job, options.build)) if options.build else work,
        modules=("recipes.assemble",),
        packages=(),
        fills_folder=options.build is not None,
        argv=rest,
    )


if __name__ == "__main__":
    run_cli(main)

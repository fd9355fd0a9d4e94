"""Artifact folders for the bench: a manifest with a decode graph, and no engine behind it."""

from __future__ import annotations

from pathlib import Path

from serve.manifest import Graph, Manifest, Output, Parameter, Signature
from tests.validate.test_parity_cli import write_artifact


def with_graph(folder: Path, checkpoint: Path, tp: int = 1) -> Manifest:
    """An artifact in `folder` whose decode graph has 40 weights and 12 numbers of state on each of `tp` ranks."""
    folder.mkdir(exist_ok=True)
    manifest = Manifest.read(write_artifact(folder, checkpoint))
    parameters = (
        Parameter(name="w", role="weight", shape=(4, 10), dtype="bfloat16"),
        Parameter(name="x", role="input", shape=(1, 10), dtype="float32"),
        Parameter(name="k.0", role="state", shape=(1, 1, 3, 4), dtype="float32"),
    )
    outputs = (
        Output(name="logits", role="logits", shape=(1, 5), dtype="float32"),
        Output(name="k.0", role="state", shape=(1, 1, 3, 4), dtype="float32"),
    )
    signature = Signature(graph="decode", batch=1, tokens=1, parameters=parameters, outputs=outputs, aliases={1: 2})
    manifest = manifest.model_copy(
        update={
            "graphs": {"decode": Graph(signature=signature, modules=(manifest.tables,))},
            "variant": manifest.variant.model_copy(update={"tp": tp}),
        }
    )
    (folder / "manifest.json").write_text(manifest.model_dump_json())
    return manifest

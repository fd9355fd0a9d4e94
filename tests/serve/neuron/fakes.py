"""Manifests of target inf2 whose graphs are one number wide, with weights and states of any names and orders."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from serve.manifest import FileRef, Manifest, Point
from tests.serve import fakes

VERSIONS = {
    "torch-neuronx": "2.8.0.2.12.22436",
    "neuronx-distributed": "0.17.26814",
    "runtime": "2.30",
    "driver": "2.26",
}
VOCABULARY = fakes.VOCABULARY


def parameter(name: str, role: str, *shape: int, dtype: str = "float32") -> dict[str, Any]:
    """A parameter of a signature."""
    return {"name": name, "role": role, "shape": shape, "dtype": dtype}


def manifest(
    builder: str,
    kv: str = "device",
    tp: int = 1,
    weights: Sequence[dict[str, Any]] = (),
    states: Sequence[str] = (),
    given: Sequence[str] | None = None,
) -> Manifest:
    """The engine tests' manifest with `weights`, states taken in the order of `states` and returned in that of `given`.

    It has a decode graph only where the builder gives it one.
    """
    document = fakes.manifest(12, 4, 3, 7).model_dump()
    point = document["variant"] | {"builder": builder, "kv": kv, "target": "inf2", "tp": tp}
    document["variant"] = Point.model_validate(point).model_dump()
    document["weights"] = [FileRef(path=f"tp{n}", sha256="", bytes=0).model_dump() for n in range(tp)]
    document["neuron"] = {
        "sdk": "2.28",
        "versions": VERSIONS,
        "weight_keys": {w["name"]: f"step.{w['name']}" for w in weights},
    }
    if builder != "nxd" and kv == "device":
        del document["graphs"]["decode"]
    for graph in document["graphs"].values():
        signature = graph["signature"]
        signature["parameters"] += (*weights, *(parameter(name, "state", 1) for name in states))
        names = [("logits", "logits", (1, VOCABULARY)), *((name, "state", (1,)) for name in given or states)]
        signature["outputs"] = [{"name": n, "role": r, "shape": s, "dtype": "float32"} for n, r, s in names]
    return Manifest.model_validate(document)

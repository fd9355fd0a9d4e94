"""What a matrix needs of a host, counted without lowering anything.

`recipes.plan` counts the weights of the traced model; this counts parameters, which needs pydantic alone, and hands
them to the same laws (recipes.fit.host). The two agree within 5 %.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from config.builders import inlines_weights, one_graph
from config.geometry import Geometry
from config.loading import load
from config.models import Checkpoint, Variant
from ledger.errors import BadInput
from recipes.fit.hbm import Hbm
from recipes.fit.host import host_of, table_bytes
from recipes.memory import text_parameters

_BYTES = {"float32": 4, "bfloat16": 2}
_BF16 = 2


@dataclass(frozen=True)
class Need:
    """Bytes of host memory at the peak of compiling, at the peak of loading and while serving, for one variant.

    `artifact` are the bytes of its files; `build` is what it takes of the disk beside the checkpoint's own files.
    """

    name: str
    tp: int
    compile: int
    load: int
    serve: int
    artifact: int
    build: int


@dataclass(frozen=True)
class Matrix:
    """The needs of every variant of target inf2; `checkpoints` are the bytes of all checkpoints and their copies."""

    variants: tuple[Need, ...]
    checkpoints: int

    @property
    def build(self) -> int:
        """Bytes of disk to build all of it."""
        return self.checkpoints + sum(one.build for one in self.variants)


def needs(path: Path) -> Matrix:
    """The needs of a configuration file; BadInput for one that is not accepted. A path source may be absent."""
    found: list[Need] = []
    total = 0
    for checkpoint in load(path).checkpoints.values():
        variants = [variant for variant in checkpoint.variants if variant.target == "inf2"]
        geometry = checkpoint.load_geometry()
        found += [_need(checkpoint, geometry, variant) for variant in variants]
        # As fetched, and as weights and tables.
        total += 2 * _BF16 * text_parameters(geometry) if variants else 0
    if not found:
        raise BadInput(f"{path}: no variant has target inf2; accepted: a configuration such as config/variants.yaml")
    return Matrix(tuple(found), total)


def device_weights(geometry: Geometry, dtype: str) -> int:
    """Bytes of the weights of one model: all parameters but the per-layer table; the token table stays as the head."""
    table = geometry.hidden_size_per_layer_input * geometry.num_hidden_layers * geometry.vocab_size_per_layer_input
    return _BYTES[dtype] * (text_parameters(geometry) - table)


def _need(checkpoint: Checkpoint, geometry: Geometry, variant: Variant) -> Need:
    weights = device_weights(geometry, variant.dtype)
    hbm = Hbm(weights=weights // variant.tp, state=0, io=0, scratch=0, code=0)
    host = host_of(geometry, hbm, variant.kv_bucket * variant.kv_max, variant.tp, variant.slim)
    inlined = 0
    if inlines_weights(variant.builder):
        inlined = weights if one_graph(variant.builder, variant.kv) else 2 * weights
    return Need(
        name=f"{checkpoint.name}/{variant.name}",
        tp=variant.tp,
        compile=host.compile,
        load=host.load,
        serve=host.serve,
        artifact=(inlined or weights) + table_bytes(geometry),
        # In the compiler's folder and in the store.
        build=2 * inlined,
    )

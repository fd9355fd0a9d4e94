"""Graphs at full size without lowering: signatures alone, with findings and operations that a test makes up."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import pytest

from config.geometry import load_geometry, load_text_config
from config.models import Variant
from recipes.fit.predict import Predictor
from recipes.fit.signatures import Shapes
from recipes.lint import Finding
from recipes.plan.graphs import Graph
from recipes.plan.row import Row, row_of
from serve.manifest import GRAPHS

ERROR = Finding("error", "NCC_EVRF001", "topk", "t", "e", "f.py:1", "topk: rejected", "choose tokens on the host")
WARNING = Finding("warn", "NCC_EVRF029", "sort", "s", "e", "", "sort: may not compile", "choose on the host", 3)


@cache
def shapes(model: str, tp: int) -> Shapes:
    return Shapes(load_text_config(model), tp, "bfloat16", "inf2")


@dataclass(frozen=True)
class Maker:
    """Rows of one checkpoint."""

    model: str

    @property
    def predictor(self) -> Predictor:
        return Predictor(load_text_config(self.model), load_geometry(self.model), "bfloat16")

    def row(self, *findings: Finding, **changes: Any) -> Row:
        usual = {"name": "v", "kv_max": 2048, "kv_bucket": 512, "dtype": "bfloat16", "target": "inf2"}
        variant = Variant.model_validate(usual | changes)
        made = {
            graph: Graph(
                shapes(self.model, variant.tp).signature(graph, *variant.size, variant.batch),
                findings if graph == "prefill" else (),
                flops=4_000_000_000,
            )
            for graph in GRAPHS
        }
        return row_of("checkpoint", load_geometry(self.model), variant, made)


@pytest.fixture(scope="session")
def maker() -> Callable[[str], Maker]:
    """A maker of rows by the name of a geometry without its prefix."""
    return lambda model: Maker(f"gemma-4-{model}-it")

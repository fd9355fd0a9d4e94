"""Signatures without lowering: those that lowering gives, and at full size what others have counted."""

from __future__ import annotations

from functools import cache

import pytest

from config.geometry import load_text_config
from recipes.fit.signatures import Shapes, role_bytes
from serve.manifest import GraphName
from tests.build import TEXT_CONFIG
from tests.recipes.test_lower import lowered

# GB of a rank's bfloat16 weights and bytes of cache per token and rank, by degree, from the geometry's own arithmetic.
WEIGHTS = {"E2B": {1: 4.56, 2: 2.34, 4: 1.22, 8: 0.67}, "E4B": {1: 9.29, 2: 4.73, 4: 2.48}, "12B": {1: 23.81, 2: 11.92}}
ROWS = {
    "E2B": {1: 18_432, 2: 18_432, 4: 18_432, 8: 18_432},
    "E4B": {1: 57_344, 2: 28_672, 4: 28_672},
    "12B": {1: 344_064, 2: 180_224},
}
POINTS = [(model, tp) for model, degrees in WEIGHTS.items() for tp in degrees]


@cache
def shapes(model: str, tp: int) -> Shapes:
    return Shapes(load_text_config(f"gemma-4-{model}-it"), tp, "bfloat16", "inf2")


@pytest.mark.parametrize(
    ("graph", "tp", "dtype", "batch"),
    [("prefill", 1, "bfloat16", 1), ("decode", 2, "bfloat16", 1), ("prefill", 2, "bfloat16", 4)],
)
def test_they_are_those_of_the_lowered_graph_but_for_order(graph: GraphName, tp: int, dtype: str, batch: int) -> None:
    theirs = lowered(graph, "inf2", tp, dtype, batch).signature
    ours = Shapes(TEXT_CONFIG, tp, "bfloat16", "inf2").signature(graph, 44, 8, batch)
    tokens = set(theirs.named("token").values())
    assert set(ours.parameters) == set(theirs.parameters) - tokens
    assert ours.outputs == theirs.outputs
    assert (ours.graph, ours.batch, ours.tokens) == (theirs.graph, theirs.batch, theirs.tokens)
    for output, number in ours.aliases.items():
        assert ours.parameters[number].name == ours.outputs[output].name


@pytest.mark.parametrize(("model", "tp"), POINTS)
def test_a_rank_holds_the_weights_that_were_counted(model: str, tp: int) -> None:
    found = role_bytes(shapes(model, tp).signature("decode", 512, 128), "weight")
    assert found / 1e9 == pytest.approx(WEIGHTS[model][tp], abs=0.0051)


@pytest.mark.parametrize(("model", "tp"), POINTS)
def test_below_the_window_a_token_takes_a_flat_row(model: str, tp: int) -> None:
    assert role_bytes(shapes(model, tp).signature("decode", 512, 128, 3), "state") == 3 * 512 * ROWS[model][tp]


def test_beyond_the_window_sliding_layers_stay_as_they_are() -> None:
    near, far = (role_bytes(shapes("E2B", 1).signature("decode", rows, 512), "state") for rows in (2048, 131_072))
    assert near == 1024 * 12_288 + 2048 * 6_144
    assert far - near == (131_072 - 2048) * 6_144

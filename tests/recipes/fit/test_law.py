"""The law of a decode step: its terms one by one, its constants against the figures they come from."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from config.geometry import load_geometry
from recipes.fit import law
from recipes.fit.law import Step, step_of
from recipes.fit.published import PUBLISHED
from tests.recipes.fit.fake import signature

NOTHING = Step(weights=0, attended=0, host=0, reduced_layers=0, streams=1)


@pytest.mark.parametrize(
    ("step", "ms"),
    [
        (replace(NOTHING, weights=4.56e9), 20.54),
        (replace(NOTHING, attended=61.7e6), 1.0),
        # 2,048 rows of 18,432 bytes, in and out.
        (replace(NOTHING, host=75_497_472), 15.63),
        (replace(NOTHING, reduced_layers=50), 1.2),
        (Step(weights=2.22e9, attended=61.7e6, host=4.83e6, reduced_layers=100, streams=1), 10 + 1 + 1 + 2.4),
    ],
)
def test_each_term_of_the_law(step: Step, ms: float) -> None:
    assert step.expected_ms == pytest.approx(ms, rel=1e-3)


def test_tokens_of_all_streams_are_counted() -> None:
    assert replace(NOTHING, weights=22.2e9, streams=8).expected_tok_s == pytest.approx(80)


@given(st.integers(1, 1 << 34), st.integers(0, 1 << 34), st.integers(0, 1 << 34), st.integers(0, 100))
def test_more_of_anything_is_never_faster(weights: int, attended: int, host: int, layers: int) -> None:
    step = Step(weights, attended, host, layers, streams=1)
    for more in ("weights", "attended", "host", "reduced_layers"):
        assert replace(step, **{more: getattr(step, more) + 1}).expected_ms >= step.expected_ms


def _loss() -> float:
    figures = [one for one in PUBLISHED if one.use == "fitted"]
    middles = [(one.step().expected_tok_s, (one.low + one.high) / 2) for one in figures]
    return sum(math.log(expected / middle) ** 2 for expected, middle in middles)


@pytest.mark.parametrize("constant", ["STREAM", "HOST", "REDUCE"])
@pytest.mark.parametrize("factor", [0.95, 1.05])
def test_no_constant_moved_alone_fits_better(monkeypatch: pytest.MonkeyPatch, constant: str, factor: float) -> None:
    best = _loss()
    monkeypatch.setattr(law, constant, getattr(law, constant) * factor)
    assert _loss() > best


def test_attention_is_what_a_longer_bucket_costs() -> None:
    """42 against 12 ms: the seven full layers of E2B read K and V of one head of 512 in bfloat16."""
    grown = 7 * 2 * 512 * 2 * (131_072 - 2_048)
    assert pytest.approx(grown / 30e-3, rel=1e-3) == law.ATTENTION


def test_a_shared_layer_reads_its_owners_rows_again() -> None:
    # Of E2B's layers: owners 0 to 14, of which 13 (sliding) and 14 (full) lend to 16 and 4 others.
    geometry = load_geometry("gemma-4-E2B-it").model_copy(
        update={
            "num_hidden_layers": 5,
            "num_kv_shared_layers": 3,
            "layer_types": ("sliding_attention", "full_attention", "sliding_attention") + ("full_attention",) * 2,
        }
    )
    given = signature("decode")
    sliding, full = 2 * 2 * 4 * 2, 2 * 2 * 8 * 4
    device, host = step_of(given, geometry, 1, "device"), step_of(given, geometry, 2, "host")
    assert device == Step(weights=200, attended=2 * sliding + 3 * full, host=0, reduced_layers=0, streams=1)
    # Both ranks' caches pass through one host, in and out.
    assert (host.host, host.reduced_layers) == (2 * 2 * (sliding + full), 5)

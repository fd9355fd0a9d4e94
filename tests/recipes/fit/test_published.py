"""The law against every published figure, which are written here a second time from the sources."""

from __future__ import annotations

import pytest

from config.geometry import load_text_config
from recipes.fit import law
from recipes.fit.law import Step
from recipes.fit.published import ERROR, PUBLISHED, Check, Figure, check_published
from recipes.fit.signatures import Shapes, role_bytes
from serve.manifest import Parameter

# Geometry, degree, batch, rows, place of the cache, and the slowest and the fastest published speed of all streams.
REQUIRED = [
    ("E2B", 1, 1, 128, "host", 47, 47.3),
    ("E2B", 1, 1, 512, "host", 44, 44),
    ("E2B", 1, 1, 2048, "host", 25, 25),
    ("E2B", 1, 1, 2048, "device", 47, 47),
    ("E2B", 2, 1, 2048, "device", 72.7, 72.7),
    ("E2B", 1, 4, 128, "host", 157, 157.1),
    ("E2B", 1, 8, 128, "host", 274.9, 275),
    ("E2B", 1, 16, 128, "host", 442.7, 443),
    ("E4B", 2, 1, 512, "device", 36, 39),
    ("12B", 2, 1, 256, "device", 15, 15),
]


@pytest.mark.parametrize(("model", "tp", "batch", "rows", "kv", "low", "high"), REQUIRED)
def test_the_law_is_within_15_percent(
    model: str, tp: int, batch: int, rows: int, kv: str, low: float, high: float
) -> None:
    key = (f"gemma-4-{model}-it", tp, batch, rows, kv, "fitted")
    (found,) = [one for one in PUBLISHED if (one.geometry, one.tp, one.batch, one.rows, one.kv, one.use) == key]
    expected = found.step().expected_tok_s
    assert 0.85 * high <= expected <= 1.15 * low
    assert low <= found.low <= found.high <= high


def test_every_figure_holds_the_held_out_ones_too() -> None:
    checks = check_published()
    assert [check.figure for check in checks] == list(PUBLISHED)
    assert all(check.holds for check in checks) and ERROR == 0.15
    assert sum(check.figure.use == "held out" for check in checks) >= 3


def test_a_law_that_is_off_is_said_to_be(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(law, "STREAM", law.STREAM * 0.7)
    assert sum(not check.holds for check in check_published()) >= 5


def test_the_error_is_to_the_farther_end() -> None:
    figure = Figure("f", "s", "gemma-4-E2B-it", 128, 1.0, low=36, high=40)
    assert Check(figure, 44).error == pytest.approx(44 / 36 - 1)
    assert Check(figure, 34.1).error == pytest.approx(34.1 / 40 - 1)
    assert Check(figure, 41.3).holds and not Check(figure, 41.5).holds


def test_a_step_is_counted_from_the_geometry() -> None:
    figure = Figure("f", "s", "gemma-4-E2B-it", 128, 4.56e9, 1, 1, batch=4, kv="host")
    # Flat rows of 18,432 bytes for the 15 owners; the 35 layers read 14,336 and 28,672 bytes a row.
    assert figure.step() == Step(
        4.56e9, attended=128 * 4 * 43_008, host=2 * 128 * 4 * 18_432, reduced_layers=0, streams=4
    )


@pytest.mark.parametrize(("model", "tp"), [("E2B", 1), ("E2B", 2), ("E4B", 2), ("12B", 2)])
def test_the_bytes_of_published_builds_are_these_weights_with_a_whole_head(model: str, tp: int) -> None:
    geometry = f"gemma-4-{model}-it"
    signature = Shapes(load_text_config(geometry), tp, "bfloat16", "inf2").signature("decode", 128, 32)
    head: Parameter = signature.named("weight")["lm_head.weight"]
    whole = role_bytes(signature, "weight") + (tp - 1) * 2 * head.shape[0] * head.shape[1]
    figures = [one for one in PUBLISHED if (one.geometry, one.tp) == (geometry, tp) and one.use == "fitted"]
    assert figures
    for one in figures:
        assert one.weights == pytest.approx(whole, rel=0.002)

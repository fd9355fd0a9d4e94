"""Estimates of memory against counts of the real models, made by the library on the meta device."""

import pytest

from config.geometry import load_geometry
from config.models import Variant
from recipes.memory import bench_mb, largest_tensor_mb, model_mb, parity_mb, state_mb, text_parameters


@pytest.mark.parametrize(
    ("geometry", "parameters"),
    [
        ("gemma-4-E2B-it", 4_628_569_344),
        ("gemma-4-E4B-it", 7_463_013_376),
        ("gemma-4-12B-it", 11_907_350_272),
        ("gemma-4-26B-A4B-it", 25_233_141_760),
        ("gemma-4-31B-it", 30_697_345_280),
    ],
)
def test_parameters_are_the_librarys_count(geometry: str, parameters: int) -> None:
    assert text_parameters(load_geometry(geometry)) == parameters
    assert model_mb(load_geometry(geometry), "bfloat16") == 2 * parameters // 1_000_000


# Published sizes of a flat cache (bfloat16, MB) and, at a length above the window, of rings of exactly the window:
# a bucket of 1 adds a row to each ring.
@pytest.mark.parametrize(
    ("geometry", "flat", "ring"),
    [
        ("gemma-4-E2B-it", 18_432, 12_288),
        ("gemma-4-E4B-it", 57_344, 40_960),
        ("gemma-4-12B-it", 344_064, 327_680),
        ("gemma-4-26B-A4B-it", 225_280, 204_800),
        ("gemma-4-31B-it", 901_120, 819_200),
    ],
)
def test_state_is_the_published_bytes_per_token(geometry: str, flat: int, ring: int) -> None:
    shape = load_geometry(geometry)
    variant = Variant(name="v", kv_max=512, kv_bucket=1, dtype="bfloat16")
    assert state_mb(shape, variant) == flat * 512 // 1_000_000
    longer = variant.model_copy(update={"kv_max": 8192, "batch": 2})
    rows = shape.sliding_window + 1
    assert state_mb(shape, longer) == 2 * ((flat - ring) * 8192 + ring * rows) // 1_000_000


def test_a_head_that_serves_two_ranks_is_held_twice() -> None:
    shape = load_geometry("gemma-4-E4B-it")
    one, four = (Variant.model_validate({"name": "v", "kv_max": 512, "kv_bucket": 8, "tp": tp}) for tp in (1, 4))
    assert state_mb(shape, four) == pytest.approx(2 * state_mb(shape, one), abs=1)


def test_what_runs_an_artifact_counts_its_state() -> None:
    shape = load_geometry("gemma-4-31B-it")
    variant = Variant(name="v", kv_max=8192, kv_bucket=512, dtype="bfloat16")
    shorter = variant.model_copy(update={"kv_max": 512})
    grown = state_mb(shape, variant) - state_mb(shape, shorter)
    assert grown > 1400
    assert parity_mb(shape, variant) - parity_mb(shape, shorter) == grown
    assert bench_mb(shape, variant) - bench_mb(shape, shorter) == 2 * grown


def test_float32_is_twice_bfloat16() -> None:
    geometry = load_geometry("gemma-4-E2B-it")
    assert model_mb(geometry, "float32") == pytest.approx(2 * model_mb(geometry, "bfloat16"), abs=1)


def test_the_largest_tensor_of_e2b_is_its_per_layer_table() -> None:
    assert largest_tensor_mb(load_geometry("gemma-4-E2B-it")) == pytest.approx(4700, rel=0.01)


def test_two_jobs_of_the_demo_fit_beside_each_other() -> None:
    assert model_mb(load_geometry("tiny"), "float32") < 100

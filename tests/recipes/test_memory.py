"""Estimates of memory against published sizes of the real checkpoints (bf16, GB: device weights plus PLE table)."""

import pytest

from config.geometry import load_geometry
from recipes.memory import largest_tensor_mb, model_mb


@pytest.mark.parametrize(
    ("geometry", "gigabytes"),
    [
        ("gemma-4-E2B-it", 4.56 + 4.70),
        ("gemma-4-E4B-it", 9.29 + 5.64),
        ("gemma-4-12B-it", 23.81),
        ("gemma-4-26B-A4B-it", 50.47),
        ("gemma-4-31B-it", 61.39),
    ],
)
def test_model_size_is_within_two_percent_of_the_published_one(geometry: str, gigabytes: float) -> None:
    assert model_mb(load_geometry(geometry), "bfloat16") == pytest.approx(1000 * gigabytes, rel=0.02)


def test_float32_is_twice_bfloat16() -> None:
    geometry = load_geometry("gemma-4-E2B-it")
    assert model_mb(geometry, "float32") == pytest.approx(2 * model_mb(geometry, "bfloat16"), abs=1)


def test_the_largest_tensor_of_e2b_is_its_per_layer_table() -> None:
    assert largest_tensor_mb(load_geometry("gemma-4-E2B-it")) == pytest.approx(4700, rel=0.01)


def test_two_jobs_of_the_demo_fit_beside_each_other() -> None:
    assert model_mb(load_geometry("tiny"), "float32") < 100

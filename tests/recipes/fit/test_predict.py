"""Device memory of points that were never lowered."""

from __future__ import annotations

import pytest

from config.geometry import load_geometry, load_text_config
from ledger.errors import BadInput
from recipes.fit.predict import Predictor


@pytest.fixture(scope="module")
def e2b() -> Predictor:
    return Predictor(load_text_config("gemma-4-E2B-it"), load_geometry("gemma-4-E2B-it"), "bfloat16")


def test_it_grows_with_context_by_the_full_layers_and_what_is_estimated(e2b: Predictor) -> None:
    short, long = e2b.hbm(2, 2048, 512), e2b.hbm(2, 131_072, 512)
    assert long.state - short.state == (131_072 - 2048) * 6_144
    # Masks and selectors of 512 and of 1 token, in bfloat16.
    assert long.io - short.io == (131_072 - 2048) * 2 * 2 * (512 + 1)
    assert long.scratch == pytest.approx(5.19e9)
    assert short.weights == long.weights == pytest.approx(2.34e9, abs=5e6)


def test_128k_of_e2b_fits_a_core_as_it_was_published(e2b: Predictor) -> None:
    assert e2b.hbm(2, 131_072, 512).fits


def test_a_degree_that_cannot_share_is_refused(e2b: Predictor) -> None:
    with pytest.raises(BadInput, match="accepted: a multiple of tp, which is 24"):
        e2b.hbm(24, 512, 128)

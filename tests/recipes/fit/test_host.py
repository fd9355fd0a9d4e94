"""Host memory against published peaks and against counts of the geometry notes."""

from __future__ import annotations

import pytest

from config.geometry import load_geometry
from recipes.fit.hbm import Hbm
from recipes.fit.host import host_of, table_bytes

# Elements of the whole text model, tied head once, as two code bases and the checkpoint's own count have them.
TEXT = {"E2B": 4_628_569_344, "E4B": 7_463_013_376, "12B": 11_907_350_272}
TABLES = {"E2B": 0.81e9 + 4.70e9, "E4B": 1.34e9 + 5.64e9, "12B": 2.01e9}


def _hbm(weights: float) -> Hbm:
    return Hbm(round(weights), state=0, io=0, scratch=0, code=0)


@pytest.mark.parametrize("model", TEXT)
def test_tables_and_the_float32_model_are_those_of_the_geometry(model: str) -> None:
    geometry = load_geometry(f"gemma-4-{model}-it")
    assert table_bytes(geometry) == pytest.approx(TABLES[model], rel=0.003)
    slim, full = (host_of(geometry, _hbm(1e9), 0, 1, one) for one in (True, False))
    assert full.serve - slim.serve == 4 * TEXT[model] - table_bytes(geometry)
    assert full.load - slim.load == 4 * TEXT[model]


@pytest.mark.parametrize(("weights", "tp"), [(4.56e9, 1), (2.34e9, 2)])
def test_slim_e2b_loads_at_the_published_peak(weights: float, tp: int) -> None:
    found = host_of(load_geometry("gemma-4-E2B-it"), _hbm(weights), 0, tp, slim=True)
    assert found.load == pytest.approx(14.5e9, rel=0.03)


def test_serving_12b_at_tp_2_takes_about_8_gb() -> None:
    assert host_of(load_geometry("gemma-4-12B-it"), _hbm(12e9), 0, 2, slim=True).serve == pytest.approx(8e9, rel=0.01)


@pytest.mark.parametrize(("widest", "peak"), [(0, 7.5e9), (512 * 131_072, 38e9)])
def test_compiling_e2b_takes_the_published_peaks(widest: int, peak: float) -> None:
    found = host_of(load_geometry("gemma-4-E2B-it"), _hbm(1), widest, 2, slim=True)
    assert found.compile == pytest.approx(peak)

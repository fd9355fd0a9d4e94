"""The measurement of planning, with commands that do next to nothing in the place of snakemake's."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from config.loading import load
from ledger.errors import BadInput, FoundryError
from validate.bench import planning
from validate.bench.planning import START, Side, finished, matrix, measure, table

QUICK = ["json.tool", "--help"]


def test_a_matrix_has_its_count_of_variants_and_is_one_that_can_be_built(tmp_path: Path) -> None:
    [checkpoint] = load(matrix(96, tmp_path, alike=False, store=tmp_path / "store")).checkpoints.values()
    assert len(checkpoint.variants) == 96
    assert len({(v.kv_max, v.tp, v.dtype, v.batch, v.slim) for v in checkpoint.variants}) > 24
    [checkpoint] = load(matrix(24, tmp_path, alike=True, store=tmp_path / "store")).checkpoints.values()
    assert len({v.size for v in checkpoint.variants}) == 1 and len(checkpoint.variants) == 24


def test_sides_are_compared_with_the_first_and_with_what_they_may_take(tmp_path: Path) -> None:
    sides = [Side(START, [QUICK], tmp_path)]
    sides += [Side(f"{most}", [QUICK] * 3, tmp_path, most) for most in (0.0, 1000.0)]
    sides += [Side("at all", [QUICK], tmp_path, 0.0, above=False)]
    start, missed, within, whole = measure(sides, 3)
    assert start["times_start"] == 1.0 and start["within"]
    for row in (missed, within):
        assert row["best_s"] <= row["median_s"] <= row["worst_s"]
        assert row["above_start_s"] == pytest.approx(row["median_s"] - start["median_s"])
        assert row["times_start"] > 1
    assert (missed["within"], within["within"], whole["within"]) == (False, True, False)
    assert table([missed, within]).splitlines()[1].endswith("0.0 s above start: missed")


def test_a_command_that_fails_is_named(tmp_path: Path) -> None:
    with pytest.raises(FoundryError, match=r"^json.tool nothing: exit code"):
        Side(START, [["json.tool", "nothing"]], tmp_path).seconds()


def test_without_a_build_there_is_nothing_to_copy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(BadInput, match=r"smoke/.*json is missing; accepted: what make smoke has built"):
        finished(24, tmp_path, tmp_path)
    monkeypatch.setattr(sys, "argv", ["planning", "--out", str(tmp_path / "out.json"), "--rounds", "0"])
    with pytest.raises((BadInput, SystemExit)):
        planning.main()

"""Histograms of the oracle's gaps, and what excused what."""

import re
from pathlib import Path
from xml.etree import ElementTree

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.validate.report.made import EXEMPT, GAPS, MISMATCH, Made
from validate.report.gaps import SMALLEST, Use, exemptions, histogram, histograms
from validate.report.run import read


def texts(svg: str) -> set[str]:
    return {element.text or "" for element in ElementTree.fromstring(svg).iter("text")}


def strokes(svg: str) -> int:
    """Marks in the colour of exemptions, without the legend's."""
    return len(re.findall(r"<use [^>]*var\(--warn\)", svg)) - 1


def test_a_bfloat16_variant_shows_its_epsilon_and_each_exemption() -> None:
    figure = histogram("g", "oracle/512-128", GAPS, Use(0.1, (0.004, 0.03, 0.03)))
    assert {"12 positions", "epsilon 0.1", "3 exempt", "0.01", "1", "oracle's gap, logits"} <= texts(figure.svg)
    assert strokes(figure.svg) == 3
    assert "smallest gap 0, median 1.1; epsilon 0.1, 4 gaps under it, 3 exemptions used" in figure.svg


def test_a_float32_variant_has_neither() -> None:
    said = texts(histogram("g", "t", GAPS, Use(None, ())).svg)
    assert not any("epsilon" in text or "exempt" in text for text in said)


@given(st.lists(st.floats(0, 1e6), min_size=1), st.none() | st.floats(1e-9, 10), st.lists(st.floats(0, 10), max_size=3))
@settings(max_examples=25)
def test_any_gaps_can_be_drawn(gaps: list[float], epsilon: float | None, exempt: list[float]) -> None:
    figure = histogram("g", "t", gaps, Use(epsilon, tuple(exempt)))
    assert f"{len(gaps)} positions" in texts(figure.svg)


def test_every_position_is_counted() -> None:
    """Also a tie, which a logarithm does not have, and the largest, which ends the axis."""
    svg = histogram("g", "t", [0.0, SMALLEST / 10, 5.0, 5.0], Use(None, ())).svg
    ticks = sorted(int(text) for text in texts(svg) if text.isdecimal())
    assert ticks[-1] == 2


def test_histograms_of_a_run(whole: Made) -> None:
    figures, notes = histograms(read([whole.receipts]), "demo", whole.store, "g")
    assert [figure.caption for figure in figures] == ["oracle/512-128"]
    assert {"epsilon 0.1", "1 exempt"} <= texts(figures[0].svg)
    assert notes == []


def test_an_oracle_that_the_store_has_no_more(tmp_path: Path) -> None:
    made = Made(tmp_path)
    made.variant("one")
    ref = read([made.receipts]).receipts("demo", None)["oracle/512-128"].outputs["oracle.json"]
    made.store.path(ref).unlink()
    figures, notes = histograms(read([made.receipts]), "demo", made.store, "g")
    assert figures == []
    assert notes == [f"oracle/512-128 cannot be drawn: oracle.json ({ref.sha256[:12]}) is not in the store"]


def test_an_oracle_that_answered_nothing(tmp_path: Path) -> None:
    made = Made(tmp_path)
    made.oracle([])
    _, (note,) = histograms(read([made.receipts]), "demo", made.store, "g")
    assert note == "oracle/512-128 cannot be drawn: it answered nothing"


def test_exemptions_and_mismatches_name_their_variant(broken: Made) -> None:
    run = read([broken.receipts])
    assert exemptions(run, "demo") == [{"variant": "bf16"} | EXEMPT]
    assert exemptions(run, "demo", "mismatches") == [{"variant": "bf16"} | MISMATCH]

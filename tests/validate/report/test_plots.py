"""The figures of speed and memory: what is drawn is what was measured."""

import re
from typing import Any
from xml.etree import ElementTree

import pytest

from tests.validate.report.made import CONTEXTS, MEASURED
from validate.report import plots, theme
from validate.report.plots import Figure, Series, Speeds

SERIES = (Series("this build", "ours", theme.OURS), Series("transformers", "theirs", theme.THEIRS))
FACTS = {"step_bytes": 8_000_000}


def texts(figure: Figure) -> list[str]:
    return [element.text or "" for element in ElementTree.fromstring(figure.svg).iter("text")]


def widths(figure: Figure, color: str) -> list[float]:
    """Widths of the filled boxes of one colour, without the legend's, which is the last."""
    found = []
    for element in ElementTree.fromstring(figure.svg).iter("path"):
        if f"fill: {color}" in element.attrib.get("style", ""):
            xs = [float(x) for x in re.findall(r"[ML] (-?[\d.]+) ", element.attrib["d"])]
            found.append(max(xs) - min(xs))
    return found[:-1]


def test_bars_are_as_long_as_their_values_and_say_them() -> None:
    rows = [{"variant": "a", "ours": 1500.0, "theirs": 500.0}, {"variant": "b", "ours": 3000.0, "theirs": None}]
    figure = plots.bars("f", "Speed", rows, SERIES, ",.0f")
    assert figure is not None
    first, second = widths(figure, "var(--ours)")
    (third,) = widths(figure, "var(--theirs)")
    assert (second / first, third / first) == pytest.approx((2.0, 1 / 3), rel=1e-3)
    assert {"a", "b", "1,500", "3,000", "500", "this build", "transformers"} <= set(texts(figure))
    assert "a: this build 1,500, transformers 500; b: this build 3,000" in figure.svg


def test_rows_without_a_figure_have_no_bar_and_no_rows_no_figure() -> None:
    nothing: dict[str, Any] = {"variant": "late", "ours": None, "theirs": None}
    figure = plots.bars("f", "Speed", [nothing, {"variant": "a", "ours": 1.0, "theirs": 2.0}], SERIES, ".1f")
    assert figure is not None
    assert "late" not in texts(figure)
    assert plots.bars("f", "Speed", [nothing], SERIES, ".1f") is None


def test_the_bandwidth_limit_is_drawn_where_there_is_one() -> None:
    rows = [{"variant": "a", "ours": 1.0, "theirs": 2.0, "limit": 9.0}, {"variant": "b", "ours": 1.0, "theirs": 2.0}]
    figure = plots.bars("f", "Speed", rows, SERIES, ".1f", mark="limit")
    assert figure is not None
    assert plots.BOUND in texts(figure)
    assert plots.BOUND not in texts(plots.bars("f", "Speed", rows, SERIES, ".1f") or figure)


def test_the_longest_name_and_many_rows_fit() -> None:
    rows = [{"variant": f"{n}-" + "x" * 60, "ours": 10.0**n, "theirs": 1.0} for n in range(12)]
    figure = plots.bars("f", "Speed", rows, SERIES, ",.0f")
    assert figure is not None
    assert f"3-{'x' * 21}…" in texts(figure)


def test_the_limit_is_bandwidth_over_bytes() -> None:
    assert plots.bound({"read_gb_s": 40.0}, FACTS) == 5000.0
    assert plots.bound({}, FACTS) is None
    assert plots.bound({"read_gb_s": 40.0}, {}) is None
    assert plots.bound({"read_gb_s": 40.0}, {"step_bytes": 0}) is None


def test_speeds_are_those_of_the_bench() -> None:
    assert plots.speeds("a", MEASURED, FACTS) == Speeds(
        "a", ((32, 3400.0), (128, 3300.0), (448, 3000.0)), ((32, 330.0), (128, 300.0)), 5000.0
    )
    assert plots.speeds("a", {"contexts": []}, FACTS) is None
    assert plots.speeds("a", {}, FACTS) is None


def test_panels_share_their_axes_and_name_every_context() -> None:
    fast = Speeds("fast", ((32, 3400.0), (32768, 3000.0)), (), 9000.0)
    slow = Speeds("slow", ((32, 10.0),), ((32, 5.0), (448, 2.0)), None)
    one, two = plots.context_panels("c", [fast, slow])
    assert (one.caption, two.caption) == ("fast", "slow")
    assert {"32", "32,768", "1,000", "10", plots.BOUND, plots.OURS} <= set(texts(one))
    assert {"32", "448", "1,000", "10", plots.THEIRS} <= set(texts(two))
    assert plots.BOUND not in texts(two)
    assert "this build 3400 tok/s at 32 tokens, 3000 tok/s at 32768 tokens; bandwidth limit 9000 tok/s" in one.svg
    assert plots.context_panels("c", []) == []


def test_one_context_is_enough() -> None:
    (panel,) = plots.context_panels("c", [Speeds("a", ((CONTEXTS[0]["tokens"], 7.0),), (), None)])
    assert "32" in texts(panel)

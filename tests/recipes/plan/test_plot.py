"""The plot: its numbers, and a file that is the same every time."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

from recipes.fit.predict import Predictor
from recipes.plan.plot import curves, draw, write_plot
from tests.recipes.plan.conftest import Maker


@pytest.fixture(scope="module")
def e2b(maker: Callable[[str], Maker]) -> Predictor:
    return maker("E2B").predictor


def test_a_line_per_degree_from_512_tokens_to_the_models_limit(e2b: Predictor) -> None:
    found = curves(e2b)
    assert list(found) == [1, 2, 4, 8]
    for points in found.values():
        assert [rows for rows, _ in points] == [512, 1024, 2048, 4096, 8192, 16384, 32768, 65536, 131_072]
        sizes = [size for _, size in points]
        assert sizes == sorted(sizes)
    for (_, one), (_, two) in zip(found[1], found[2], strict=True):
        assert two < one


def test_the_file_is_an_svg_with_the_limit_and_the_same_every_time(e2b: Predictor, tmp_path: Path) -> None:
    for name in ("a.svg", "b.svg"):
        write_plot({"E2B": e2b}, tmp_path / name)
    text = (tmp_path / "a.svg").read_text()
    assert ElementTree.fromstring(text).tag.endswith("svg")
    for label in ("<!-- 16 GiB -->", "<!-- tp 8 -->", "<!-- 128K -->", "<!-- E2B -->"):
        assert label in text
    assert text == (tmp_path / "b.svg").read_text()


def test_every_point_is_within_the_axes_of_its_panel(e2b: Predictor, maker: Callable[[str], Maker]) -> None:
    figure = draw({"E2B": curves(e2b), "12B": curves(maker("12B").predictor)})
    highest = []
    for axis in figure.axes:
        sizes = [np.asarray(line.get_ydata(), dtype=float) for line in axis.get_lines()]
        assert sorted(map(len, sizes)) == [2, 9, 9, 9, 9]  # the limit, and a line for each degree
        highest.append(max(float(size.max()) for size in sizes))
        assert axis.get_ylim()[0] == 0 and axis.get_ylim()[1] > highest[-1]
    assert highest[1] > 25 > highest[0]

"""Figures as SVG: the page's colours, ids of their own, no style for the whole page, the same bytes twice."""

import re
from xml.etree import ElementTree

import pytest

from validate.report import theme


def svg(name: str = "f", text: str = "x") -> str:
    with theme.axes(200) as drawn:
        drawn.plot([1, 2], [3, 4], color=theme.OURS, label=theme.label(text))
        theme.legend(drawn)
        return str(theme.inline(drawn, name, f"title {text}", f"description {text}"))


def test_a_figure_is_the_same_bytes_twice() -> None:
    assert svg() == svg()


def test_colours_are_the_pages() -> None:
    made = svg()
    assert {"var(--ours)", "var(--ink)", "var(--muted)", "var(--line)"} <= set(re.findall(r"var\(--\w+\)", made))
    assert "#01020" not in made


def test_two_figures_share_no_id_and_every_reference_is_met() -> None:
    ids = [re.findall(r'\bid="([^"]+)"', svg(name)) for name in ("a", "b")]
    assert all(len(own) == len(set(own)) for own in ids)
    assert not set(ids[0]) & set(ids[1])
    referred = re.findall(r'(?:href="#|url\(#)([^")]+)', svg("a"))
    assert referred
    assert set(referred) <= set(ids[0])


def test_there_is_nothing_for_the_page_around_it() -> None:
    made = svg()
    assert "<style" not in made
    assert "metadata" not in made
    assert "http" not in made


def test_it_says_what_it_shows() -> None:
    root = ElementTree.fromstring(svg("f", "<b>&"))
    assert root.attrib["role"] == "img"
    named = {element.attrib.get("id"): element.text for element in root.iter()}
    said = [named[one] for one in root.attrib["aria-labelledby"].split()]
    assert said == ["title <b>&", "description <b>&"]


@pytest.mark.parametrize("text", ["$x_1$", "a\x00b", "<script>", "日本"])
def test_text_stays_text(text: str) -> None:
    found = [element.text for element in ElementTree.fromstring(svg(text=theme.label(text))).iter("text")]
    assert text.replace("\x00", "?") in found


def test_a_long_name_is_cut() -> None:
    assert theme.label("a" * 30, 24) == "a" * 23 + "…"
    assert theme.label("a" * 24, 24) == "a" * 24

"""The page in headless Chromium: it opens, every picture is drawn, nothing is said on the console, nothing leaves."""

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.validate.report.browser import Browser, chromium
from tests.validate.report.conftest import report
from tests.validate.report.found import GONE, MOVED, SAME, UNKNOWN, UNWATCHED, upstream
from tests.validate.report.made import Made

pytestmark = pytest.mark.browser

_PICTURES = """
[...document.querySelectorAll("svg")].map(svg => {
  const box = svg.getBoundingClientRect();
  const shown = [...svg.querySelectorAll("path, rect, use, text")].filter(one => {
    const own = one.getBoundingClientRect(), style = getComputedStyle(one);
    const paint = [style.fill, style.stroke].some(c => c !== "none" && !c.startsWith("rgba(0, 0, 0, 0"));
    return own.width + own.height > 0 && paint;
  });
  const inside = [...svg.querySelectorAll("text")].every(one => {
    const own = one.getBoundingClientRect();
    return own.left >= box.left - 2 && own.right <= box.right + 2;
  });
  const count = tag => shown.filter(one => one.tagName === tag).length;
  return {id: svg.id, width: box.width, height: box.height, inside, paths: count("path"), texts: count("text")};
})
"""


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with chromium(tmp_path_factory.mktemp("profile")) as opened:
        yield opened


@pytest.fixture(scope="module")
def pages(whole: Made, broken: Made, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("pages")
    found = upstream(same=SAME, moved=MOVED, gone=GONE, gated=UNKNOWN, own=UNWATCHED)
    pages = {name: report(made, folder / f"{name}.html") for name, made in (("whole", whole), ("broken", broken))}
    return pages | {"moved": report(whole, folder / "moved.html", found)}


def quiet(browser: Browser, page: Path) -> None:
    """Nothing on the console, no exception, no request but for the page."""
    assert browser.said("Log.entryAdded") == []
    assert browser.said("Runtime.consoleAPICalled") == []
    assert browser.said("Runtime.exceptionThrown") == []
    assert [one["request"]["url"] for one in browser.said("Network.requestWillBeSent")] == [page.resolve().as_uri()]


@pytest.mark.parametrize("name", ["whole", "broken", "moved"])
@pytest.mark.parametrize("width", [1200, 400])
def test_every_picture_is_drawn_and_nothing_is_said(
    name: str, width: int, browser: Browser, pages: dict[str, Path]
) -> None:
    browser.open(pages[name], width)
    pictures: list[dict[str, Any]] = browser.ask(_PICTURES)
    assert len(pictures) == {"whole": 7, "broken": 6, "moved": 7}[name]
    for one in pictures:
        assert one["width"] > 200, one
        assert one["height"] > 40, one
        assert one["paths"] > 4, one
        assert one["texts"] > 3, one
        assert one["inside"], one
    assert browser.ask("document.documentElement.scrollWidth") == width
    assert browser.ask("document.querySelector('h1').innerText").startswith("made")
    quiet(browser, pages[name])


def test_light_and_dark_differ_and_both_can_be_read(browser: Browser, pages: dict[str, Path]) -> None:
    ratios = {}
    for dark in (False, True):
        browser.open(pages["moved"], dark=dark)
        colours = [browser.ask(f"getComputedStyle(document.querySelector('{css}')).{key}") for css, key in _TEXTS]
        paper = browser.ask("getComputedStyle(document.body).backgroundColor")
        ratios[dark] = (paper, [contrast(colour, paper) for colour in colours])
    assert ratios[False][0] != ratios[True][0]
    # 4.5 is what WCAG 2.2 asks of text (success criterion 1.4.3).
    assert min(*ratios[False][1], *ratios[True][1]) >= 4.5


_TEXTS = (
    ("p", "color"),
    (".kicker", "color"),
    (".state.passed", "color"),
    (".state.open", "color"),
    ("nav a", "color"),
    (".plot text", "fill"),
    (".dag .note", "fill"),
)


def contrast(one: str, two: str) -> float:
    """Contrast of two colours written as rgb(r, g, b), by WCAG's formula."""

    def luminance(colour: str) -> float:
        channels = [int(part) / 255 for part in colour.removeprefix("rgb(").removesuffix(")").split(",")]
        linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    dark, light = sorted((luminance(one), luminance(two)))
    return (light + 0.05) / (dark + 0.05)


def test_a_digest_is_short_until_it_is_focused(browser: Browser, pages: dict[str, Path]) -> None:
    browser.open(pages["whole"])
    browser.ask("document.querySelectorAll('details').forEach(one => one.open = true)")
    width = "document.querySelector('.digest').getBoundingClientRect().width"
    short = browser.ask(width)
    browser.ask("document.querySelector('.digest').focus()")
    assert browser.ask(width) > 3 * short
    copied = "(getSelection().selectAllChildren(document.querySelector('.digest')), getSelection().toString())"
    assert len(browser.ask(copied)) == 64


def test_it_can_be_photographed_and_printed(browser: Browser, pages: dict[str, Path], tmp_path: Path) -> None:
    browser.open(pages["whole"])
    browser.photograph(tmp_path / "page.png")
    header = (tmp_path / "page.png").read_bytes()[:24]
    assert header[1:4] == b"PNG"
    width, height = struct.unpack(">II", header[16:])
    assert (width, height) == (1200, browser.ask("document.documentElement.scrollHeight"))
    browser.call("Emulation.setEmulatedMedia", media="print")
    overflow = (
        "[...document.querySelectorAll('.wide')].filter(one => getComputedStyle(one).overflowX !== 'visible').length"
    )
    assert browser.ask(overflow) == 0


def test_a_console_message_and_a_request_would_be_seen(browser: Browser, tmp_path: Path) -> None:
    """The checks above can fail: a page that talks and loads is caught."""
    loud = tmp_path / "loud.html"
    loud.write_text("<script>console.error('x')</script><img src='gone.png'>")
    browser.open(loud)
    assert browser.said("Runtime.consoleAPICalled")
    assert browser.said("Log.entryAdded")
    with pytest.raises(AssertionError):
        quiet(browser, loud)


def test_a_machine_without_chromium_is_told_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(AssertionError, match=r"chromium is not installed; .*`make system`"), chromium(tmp_path / "p"):
        pass

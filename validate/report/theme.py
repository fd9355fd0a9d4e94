"""matplotlib figures as inline SVG that follows the page: its colours, its font, light and dark.

matplotlib writes colours into the picture. Here each colour is a stand-in for a variable of the page's style sheet and
is swapped for it. Text stays text. Ids are made from the figure's name, as the ids of a whole page share one space.
"""

from __future__ import annotations

import io
import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from xml.etree import ElementTree

import matplotlib as mpl
from markupsafe import Markup
from matplotlib.axes import Axes
from matplotlib.figure import Figure

INK, MUTED, GRID, OURS, THEIRS, BOUND, MARK = (f"#01020{n}" for n in range(7))
_VARIABLES = {
    INK: "var(--ink)",
    MUTED: "var(--muted)",
    GRID: "var(--line)",
    OURS: "var(--ours)",
    THEIRS: "var(--theirs)",
    BOUND: "var(--bound)",
    MARK: "var(--warn)",
}
WIDTH = 380
"""Of every figure, in units that are pixels on a page with room enough."""
_SVG = "{http://www.w3.org/2000/svg}"
_HREF = "{http://www.w3.org/1999/xlink}href"
_STYLE: dict[Any, Any] = {
    "svg.fonttype": "none",
    "svg.hashsalt": "report",
    "text.parse_math": False,
    "figure.dpi": 72,
    "figure.facecolor": "none",
    "savefig.facecolor": "none",
    "axes.facecolor": "none",
    "axes.edgecolor": GRID,
    "axes.labelcolor": MUTED,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "axes.unicode_minus": False,
    "grid.color": GRID,
    "grid.linewidth": 0.7,
    "xtick.color": GRID,
    "ytick.color": GRID,
    "xtick.labelcolor": MUTED,
    "ytick.labelcolor": MUTED,
    "text.color": INK,
    "font.size": 10.5,
    "legend.frameon": False,
    "legend.fontsize": 10.5,
}


@contextmanager
def axes(height: float) -> Iterator[Axes]:
    """The axes of a new figure, WIDTH by `height` units; nothing of this machine's matplotlibrc counts."""
    with mpl.rc_context():
        mpl.rcdefaults()
        mpl.rcParams.update(_STYLE)
        yield Figure(figsize=(WIDTH / 72, height / 72), layout="constrained").subplots()


def legend(drawn: Axes, first: str = "") -> None:
    """What the colours stand for, in a row above the axes; `first` names the one that comes first."""
    handles, names = drawn.get_legend_handles_labels()
    order = sorted(range(len(names)), key=lambda at: (names[at] != first, at))
    drawn.legend(
        [handles[at] for at in order],
        [names[at] for at in order],
        loc="lower left",
        bbox_to_anchor=(-0.02, 1.0),
        ncols=3,
        handlelength=1.4,
        columnspacing=1.2,
    )


def inline(drawn: Axes, name: str, title: str, description: str) -> Markup:
    """The figure as an SVG element; `title` and `description` are for those who do not see it."""
    figure = drawn.get_figure(root=True)
    if figure is None:
        raise ValueError("axes without a figure")
    buffer = io.StringIO()
    with warnings.catch_warnings():
        # A letter that this font lacks stays text, and the browser has others.
        warnings.filterwarnings("ignore", "Glyph .* missing from font", UserWarning)
        figure.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None, "Format": None, "Type": None})
    root = ElementTree.fromstring(buffer.getvalue())
    _clean(root, name)
    root.attrib = {
        "viewBox": root.attrib["viewBox"],
        "role": "img",
        "aria-labelledby": f"{name}-title {name}-desc",
        "id": name,
    }
    for number, (tag, text) in enumerate((("title", title), ("desc", description))):
        element = ElementTree.Element(tag, {"id": f"{name}-{tag}"})
        element.text = text
        root.insert(number, element)
    return Markup(_coloured(ElementTree.tostring(root, encoding="unicode")))


def label(text: str, most: int | None = None) -> str:
    """`text` without what XML cannot hold, and cut to `most` letters: a name may be wider than a figure."""
    shown = "".join(letter if letter.isprintable() else "?" for letter in text)
    return shown if most is None or len(shown) <= most else f"{shown[: most - 1]}…"


def _clean(root: ElementTree.Element, name: str) -> None:
    """Drop the metadata and the style sheet, which would hold for the whole page, and make ids the figure's own."""
    for parent in list(root.iter()):
        for child in list(parent):
            if child.tag in (f"{_SVG}metadata", f"{_SVG}style"):
                parent.remove(child)
    for element in root.iter():
        element.tag = element.tag.removeprefix(_SVG)
        if "id" in element.attrib:
            element.set("id", f"{name}-{element.attrib['id']}")
        if _HREF in element.attrib:
            element.set("href", f"#{name}-{element.attrib.pop(_HREF).removeprefix('#')}")
        for key, value in element.attrib.items():
            if "url(#" in value:
                element.set(key, value.replace("url(#", f"url(#{name}-"))


def _coloured(svg: str) -> str:
    return re.sub("|".join(_VARIABLES), lambda found: _VARIABLES[found[0]], svg)

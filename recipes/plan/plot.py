"""HBM per core against context: a panel per checkpoint, a line per degree, and the limit of a core.

Departs from pyplot in that no global state is used and nothing of this machine's matplotlibrc or of the day counts:
the same plan gives the same file.
"""

from __future__ import annotations

import io
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from config.geometry import Geometry
from ledger.atomic import write_text
from recipes.fit.instances import CORE_HBM, GIB
from recipes.fit.predict import Predictor

if TYPE_CHECKING:
    from matplotlib.figure import Figure

BUCKET = 512
DEGREES = (1, 2, 4, 8)
CONTEXTS = tuple(512 << step for step in range(9))
Curves = dict[int, list[tuple[int, float]]]


def curves(predictor: Predictor) -> Curves:
    """(tokens of context, GiB per core) for every degree that can share the model: one stream, chunks of 512."""
    return {
        tp: [(rows, predictor.hbm(tp, rows, min(BUCKET, rows)).total / GIB) for rows in _contexts(predictor.geometry)]
        for tp in DEGREES
        if not predictor.geometry.tp_accepted(tp)
    }


def _contexts(geometry: Geometry) -> list[int]:
    return [rows for rows in CONTEXTS if rows <= geometry.max_position_embeddings]


def write_plot(predictors: Mapping[str, Predictor], path: Path) -> None:
    """Write the panels of all checkpoints to an SVG file."""
    import matplotlib as mpl

    text = io.StringIO()
    with mpl.rc_context():
        mpl.rcdefaults()
        mpl.rcParams["svg.hashsalt"] = "plan"
        figure = draw({name: curves(predictor) for name, predictor in predictors.items()})
        figure.savefig(text, format="svg", metadata={"Date": None})
    write_text(path, text.getvalue())


def draw(panels: Mapping[str, Curves]) -> Figure:
    """The figure, all panels on one scale."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(4.2 * len(panels) + 0.8, 3.8), layout="constrained")
    axes = figure.subplots(1, len(panels), sharey=True, squeeze=False)[0]
    drawn: dict[str, Any] = {}
    for axis, (name, lines) in zip(axes, panels.items(), strict=True):
        drawn |= _panel(axis, name, lines)
    sizes = [size for lines in panels.values() for points in lines.values() for _, size in points]
    axes[0].set_ylim(0, 1.05 * max(CORE_HBM / GIB, *sizes))
    axes[0].set_ylabel("GiB per core (estimate)")
    figure.legend(drawn.values(), drawn.keys(), loc="outside right upper", frameon=False)
    return figure


def _panel(axis: Any, name: str, lines: Curves) -> dict[str, Any]:
    """Draw one checkpoint; the lines by label, for the legend that all panels share."""
    drawn = {}
    for tp, points in lines.items():
        color = f"C{DEGREES.index(tp)}"
        (drawn[f"tp {tp}"],) = axis.plot(*zip(*points, strict=True), color=color, marker="o", markersize=3)
    limit = f"{CORE_HBM // GIB} GiB"
    drawn[limit] = axis.axhline(CORE_HBM / GIB, color="black", linestyle="--", linewidth=1)
    axis.set_xscale("log", base=2)
    ticks = [rows for rows, _ in next(iter(lines.values()))][::2]
    axis.set_xticks(ticks, [f"{rows / 1024:g}K" for rows in ticks])
    axis.set_xlabel("tokens of context")
    axis.set_title(name)
    return drawn

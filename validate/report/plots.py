"""The figures of speed and memory: a panel per variant for decode against context, a bar per variant for the rest.

Bars begin at zero. Lines are drawn on two logarithmic axes, the same for every panel of a checkpoint, as both sides
and the memory bound lie apart by factors and panels are there to be compared.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup
from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

from validate.report import theme

Row = Mapping[str, Any]
OURS, THEIRS, BOUND = "this build", "transformers", "bandwidth limit"


@dataclass(frozen=True)
class Figure:
    """A picture with its caption."""

    svg: Markup
    caption: str


@dataclass(frozen=True)
class Speeds:
    """Decode tok/s of one sequence by tokens of context; `bound` is what the memory's bandwidth would allow."""

    title: str
    ours: tuple[tuple[float, float], ...]
    theirs: tuple[tuple[float, float], ...]
    bound: float | None


@dataclass(frozen=True)
class Series:
    """One bar per row, from a key of it; what is None has no bar."""

    name: str
    key: str
    color: str


def bound(measured: Mapping[str, Any], facts: Mapping[str, Any]) -> float | None:
    """Tok/s at which a step would take no longer than reading what it must, at the bandwidth measured beside it."""
    speed, size = measured.get("read_gb_s"), facts.get("step_bytes")
    return speed * 1e9 / size if speed and size else None


def speeds(title: str, measured: Mapping[str, Any], facts: Mapping[str, Any]) -> Speeds | None:
    """What a bench says of decode against context; None for one that did not look."""
    contexts = measured.get("contexts") or []
    ours, theirs = (tuple((one["tokens"], one[key]) for one in contexts if one.get(key)) for key in _SPEEDS)
    return Speeds(title, ours, theirs, bound(measured, facts)) if ours else None


_SPEEDS = ("decode_tok_s", "transformers_decode_tok_s")


def context_panels(name: str, panels: Sequence[Speeds]) -> list[Figure]:
    """One figure per variant, all on the same axes."""
    points = [point for panel in panels for point in (*panel.ours, *panel.theirs)]
    bounds = [panel.bound for panel in panels if panel.bound]
    xs, ys = [x for x, _ in points], [y for _, y in points] + bounds
    return [_panel(f"{name}-{n}", panel, _around(xs), _around(ys)) for n, panel in enumerate(panels)]


def bars(
    name: str, title: str, rows: Sequence[Row], series: Sequence[Series], form: str, mark: str = ""
) -> Figure | None:
    """A group of bars per row that has any; `mark` is a key whose value is drawn as a stroke across the first bar."""
    rows = [row for row in rows if any(row.get(one.key) is not None for one in series)]
    if not rows:
        return None
    thick = 0.8 / len(series)
    with theme.axes(46 + len(rows) * (14 + 15 * len(series))) as drawn:
        for number, one in enumerate(series):
            shown = [(at, row[one.key]) for at, row in enumerate(rows) if row.get(one.key) is not None]
            places = [at + (number - (len(series) - 1) / 2) * thick for at, _ in shown]
            made = drawn.barh(places, [value for _, value in shown], thick * 0.86, color=one.color, label=one.name)
            drawn.bar_label(made, [format(value, form) for _, value in shown], padding=3, fontsize=9.5)
        marks = [(at, row[mark]) for at, row in enumerate(rows) if mark and row.get(mark)]
        if marks:
            low = [at - 0.45 for at, _ in marks]
            drawn.vlines([x for _, x in marks], low, [y + 0.9 for y in low], theme.BOUND, "dashed", label=BOUND)
        drawn.set_yticks(range(len(rows)), [theme.label(row["variant"], 24) for row in rows], color=theme.INK)
        drawn.set_ylim(len(rows) - 0.45, -0.55)
        drawn.set_xlim(0, max([drawn.get_xlim()[1], *(1.05 * x for _, x in marks)]) * 1.16)
        drawn.grid(visible=False, axis="y")
        drawn.tick_params(axis="y", length=0)
        drawn.spines["left"].set_visible(False)
        drawn.xaxis.set_major_formatter(FuncFormatter(_short))
        drawn.locator_params(axis="x", nbins=5)
        theme.legend(drawn, series[0].name)
        svg = theme.inline(drawn, name, title, _said(rows, series, form))
    return Figure(svg, title)


def _panel(name: str, panel: Speeds, xs: tuple[float, float], ys: tuple[float, float]) -> Figure:
    with theme.axes(220) as drawn:
        for points, color, dashes, who in (
            (panel.theirs, theme.THEIRS, "--", THEIRS),
            (panel.ours, theme.OURS, "-", OURS),
        ):
            if points:
                x, y = zip(*points, strict=True)
                drawn.plot(x, y, dashes, marker="o", markersize=4.5, linewidth=1.8, color=color, label=who)
        if panel.bound:
            drawn.axhline(panel.bound, color=theme.BOUND, linestyle=":", linewidth=1.6, label=BOUND)
        drawn.set(xscale="log", yscale="log", xlim=xs, ylim=ys, xlabel="tokens of context", ylabel="decode tok/s")
        ticks = sorted({x for x, _ in (*panel.ours, *panel.theirs)})
        drawn.set_xticks(ticks if len(ticks) < 7 else ticks[::2])
        drawn.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
        for axis in (drawn.xaxis, drawn.yaxis):
            axis.set_minor_locator(NullLocator())
            axis.set_major_formatter(FuncFormatter(_short))
        theme.legend(drawn, OURS)
        svg = theme.inline(drawn, name, f"{panel.title}: decode speed against context", _told(panel))
    return Figure(svg, panel.title)


def _around(values: Sequence[float]) -> tuple[float, float]:
    """Limits of a logarithmic axis with room around `values`."""
    return (min(values) / 1.35, max(values) * 1.35) if values else (1.0, 10.0)


def _short(value: float, _: object) -> str:
    return f"{value / 1e3:,g}k" if value >= 100_000 else f"{value:,.0f}" if value >= 1000 else f"{value:g}"


def _said(rows: Sequence[Row], series: Sequence[Series], form: str) -> str:
    told = []
    for row in rows:
        values = [f"{one.name} {format(row[one.key], form)}" for one in series if row.get(one.key) is not None]
        told.append(f"{row['variant']}: {', '.join(values)}")
    return theme.label("; ".join(told))


def _told(panel: Speeds) -> str:
    sides = [(OURS, panel.ours), (THEIRS, panel.theirs)]
    told = [
        f"{who} {', '.join(f'{y:.4g} tok/s at {x:g} tokens' for x, y in points)}" for who, points in sides if points
    ]
    if panel.bound:
        told.append(f"{BOUND} {panel.bound:.4g} tok/s")
    return theme.label("; ".join(told))

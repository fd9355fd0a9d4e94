"""How undecided the oracle was, and where that excused a bfloat16 build.

The histogram counts the oracle's own gap (the logit of its choice minus the next best) at every position that parity
judges, on a logarithmic axis; a gap under epsilon excuses, and each excuse used is a stroke under the axis.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter

from ledger.errors import BadInput
from ledger.receipts import Receipt
from ledger.store import Store
from validate.report import theme
from validate.report.plots import Figure
from validate.report.run import Run

SMALLEST = 1e-4
"""Gaps under it, ties among them, are drawn here, as a logarithm has no zero."""
_BINS = 48


@dataclass(frozen=True)
class Use:
    """What the variants of one size made of an oracle: the limit that was declared, and the gaps that were excused."""

    epsilon: float | None
    exempt: tuple[float, ...]


def histogram(name: str, title: str, gaps: Sequence[float], use: Use) -> Figure:
    """The figure of one oracle's `gaps`, in logits; there is at least one."""
    shown = [max(gap, SMALLEST) for gap in gaps]
    low, high = _decade(min([*shown, *_positive(use)])), max(shown) * 1.2
    edges = [low * (high / low) ** (n / _BINS) for n in range(_BINS + 1)]
    with theme.axes(220) as drawn:
        drawn.hist(shown, edges, histtype="stepfilled", color=theme.OURS, label=f"{len(gaps):,} positions")
        drawn.set(xscale="log", xlim=(low, high), xlabel="oracle's gap, logits", ylabel="positions")
        if use.epsilon:
            drawn.axvline(
                use.epsilon, color=theme.BOUND, linestyle=":", linewidth=1.6, label=f"epsilon {use.epsilon:g}"
            )
        if use.exempt:
            _strokes(drawn, use.exempt)
        drawn.xaxis.set_major_locator(LogLocator(numticks=8))
        drawn.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        drawn.xaxis.set_minor_formatter(NullFormatter())
        drawn.yaxis.set_major_locator(MaxNLocator(6, integer=True))
        drawn.yaxis.set_major_formatter("{x:,.0f}")
        theme.legend(drawn)
        svg = theme.inline(drawn, name, f"{title}: histogram of the oracle's gaps", _told(gaps, use))
    return Figure(svg, title)


def histograms(run: Run, checkpoint: str, store: Store, name: str) -> tuple[list[Figure], list[str]]:
    """A figure per oracle of a checkpoint, and a sentence for each that cannot be drawn."""
    figures: list[Figure] = []
    notes: list[str] = []
    for place, receipt in run.receipts(checkpoint, None).items():
        if receipt.stage != "oracle":
            continue
        judged = [one for variant in run.variants(checkpoint) if (one := _judged_by(run, checkpoint, variant, receipt))]
        try:
            gaps = _gaps(receipt, store)
        except BadInput as error:
            notes.append(f"{place} cannot be drawn: {error}")
            continue
        if gaps:
            figures.append(histogram(f"{name}-{len(figures)}", place, gaps, _use(judged)))
        else:
            notes.append(f"{place} cannot be drawn: it answered nothing")
    return figures, notes


def _strokes(drawn: Axes, exempt: Sequence[float]) -> None:
    """A stroke under the axis for each gap that was excused."""
    top = drawn.get_ylim()[1]
    at = [max(gap, SMALLEST) for gap in exempt]
    drawn.plot(at, [-0.045 * top] * len(at), "|", markersize=11, color=theme.MARK, label=f"{len(at)} exempt")
    drawn.set_ylim(-0.09 * top, top)


def _judged_by(run: Run, checkpoint: str, variant: str, oracle: Receipt) -> Receipt | None:
    parity = run.receipts(checkpoint, variant).get("parity")
    return parity if parity and parity.inputs.get("oracle") == oracle.digest else None


def _gaps(receipt: Receipt, store: Store) -> list[float]:
    """Gaps of all answers and of held-out windows. Raises BadInput when the store has them no more."""
    ref = receipt.outputs.get("oracle.json")
    if ref is None:
        raise BadInput("its receipt names no oracle.json")
    if not store.has(ref):
        # Without its path, which is of this machine.
        raise BadInput(f"oracle.json ({ref.sha256[:12]}) is not in the store")
    record: dict[str, Any] = store.read_json(ref)
    return [gap for kind in ("answers", "heldout") for one in record.get(kind, ()) for gap in one["gaps"]]


def _use(judged: Iterable[Receipt]) -> Use:
    judged = list(judged)
    limits = [epsilon for one in judged if (epsilon := one.facts.get("epsilon"))]
    exempt = [gap for one in judged for use in one.facts.get("exemptions", ()) if (gap := use.get("gap")) is not None]
    return Use(max(limits, default=None), tuple(sorted(exempt)))


def _positive(use: Use) -> list[float]:
    return [max(one, SMALLEST) for one in (*use.exempt, *([use.epsilon] if use.epsilon else ()))]


def _decade(value: float) -> float:
    """The power of ten at or under `value`."""
    return float(f"1e{f'{value:e}'.partition('e')[2]}")


def _told(gaps: Sequence[float], use: Use) -> str:
    ordered = sorted(gaps)
    told = f"{len(gaps)} positions, smallest gap {ordered[0]:.3g}, median {ordered[len(ordered) // 2]:.3g}"
    if use.epsilon:
        under = sum(gap < use.epsilon for gap in gaps)
        told += f"; epsilon {use.epsilon:g}, {under} gaps under it, {len(use.exempt)} exemptions used"
    return told


def exemptions(run: Run, checkpoint: str, kind: str = "exemptions") -> list[Mapping[str, Any]]:
    """Every use of the exemption (or every mismatch, by `kind`), with the variant that it belongs to."""
    return [
        {"variant": variant} | one
        for variant in run.variants(checkpoint)
        if (parity := run.receipts(checkpoint, variant).get("parity"))
        for one in parity.facts.get(kind, ())
    ]

"""The plan and the check of the law as text."""

from __future__ import annotations

from collections.abc import Sequence

from ledger.columns import aligned
from recipes.fit.instances import CORE_HBM, GIB
from recipes.fit.published import ERROR, LEFT_OUT, Check
from recipes.plan.row import Row

_PLAN = (
    "checkpoint",
    "variant",
    "lint",
    "HBM GiB",
    "compile GiB",
    "load GiB",
    "serve GiB",
    "floor tok/s",
    "expected tok/s",
    "artifact MB",
    "instance",
)

_READING = (
    f"HBM is per core, of {CORE_HBM // GIB} GiB, with scratch and code as estimates; compile, load and serve are host "
    "memory; the instance is the cheapest for load and serve",
    f"expected tok/s is of all streams, by a law within {ERROR:.0%} of published builds (--check-published); they have "
    "flat caches and a whole head on each rank, so the same point may be faster here; nothing was run on a device",
)


def plan_lines(rows: Sequence[tuple[Row, list[str]]]) -> list[str]:
    """The table, then what stands against variants, then notes."""
    lines = aligned([_PLAN, *(_cells(row, bool(against)) for row, against in rows)])
    lines += [f"cannot work: {row.name}: {one}" for row, against in rows for one in against]
    for row in (row for row, against in rows if not against):
        if row.swap:
            lines.append(f"note: {row.name}: {row.swap[0].name} would do with {row.swap[1] / GIB:.0f} GiB of swap")
    return [*lines, *_READING]


def _cells(row: Row, against: bool) -> tuple[str, ...]:
    counts = row.counts()
    lint = f"{counts['error']} errors" if counts["error"] else f"ok, {counts['warn']} warn"
    return (
        row.checkpoint,
        row.variant.name,
        lint,
        f"{row.hbm.total / GIB:.1f}",
        f"{row.host.compile / GIB:.1f}",
        f"{row.host.load / GIB:.1f}",
        f"{row.host.serve / GIB:.1f}",
        f"{row.floor_tok_s:.0f}",
        f"{row.step.expected_tok_s:.1f}",
        f"{row.artifact / 1e6:,.0f}",
        "none" if against or row.instance is None else row.instance.name,
    )


def check_lines(checks: Sequence[Check]) -> list[str]:
    """The law against published figures, and which figures are left out."""
    head = ("figure", "published tok/s", "expected", "error", "use", "source")
    lines = aligned([head, *(_check_cells(check) for check in checks)])
    worst = max(checks, key=lambda check: abs(check.error))
    lines.append(f"stated error {ERROR:.0%}; largest {worst.error:+.1%}, of {worst.figure.name}")
    return lines + [f"left out: {one}" for one in LEFT_OUT]


def _check_cells(check: Check) -> tuple[str, ...]:
    figure = check.figure
    published = f"{figure.low:g}" if figure.low == figure.high else f"{figure.low:g} to {figure.high:g}"
    return figure.name, published, f"{check.expected:.1f}", f"{check.error:+.1%}", figure.use, figure.source

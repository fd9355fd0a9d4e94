"""What is wanted of the figures, as data, and the verdict on each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal


@dataclass(frozen=True, slots=True)
class Threshold:
    """A figure at a dotted path of the summary, and what it must be: a number, or another's path."""

    path: str
    must_be: Literal["at least", "at most", "equal to"]
    limit: float | str


THRESHOLDS = (
    Threshold("decode.one.ratio", "at least", 0.95),
    Threshold("decode.slots.ratio", "at least", 0.95),
    Threshold("decode.eight.added_ms.p50", "at most", 0.3),
    Threshold("decode.eight.added_ms.p99", "at most", 2.0),
    Threshold("overload.refused", "at least", 1),
    Threshold("overload.refused_otherwise", "equal to", 0),
    Threshold("overload.broken_count", "equal to", 0),
    Threshold("overload.refusal_ms.p99", "at most", 50.0),
    Threshold("overload.queue_most", "at most", "overload.queue_limit"),
    Threshold("overload.completed", "equal to", "overload.admitted"),
    Threshold("overload.finished_by_metrics", "equal to", "overload.admitted"),
    Threshold("overload.rss_growth_mb", "at most", 20.0),
)


def verdicts(summary: Mapping[str, Any], thresholds: tuple[Threshold, ...] = THRESHOLDS) -> list[dict[str, Any]]:
    """One entry for each threshold: what was found, what is wanted, and whether it holds.

    A figure that is not there does not hold.
    """
    found = []
    for one in thresholds:
        value = _at(summary, one.path)
        limit = _at(summary, one.limit) if isinstance(one.limit, str) else one.limit
        holds = value is not None and limit is not None and _holds(value, one.must_be, limit)
        found.append({"figure": one.path, "found": value, "must_be": one.must_be, "limit": limit, "holds": holds})
    return found


def table(found: list[dict[str, Any]]) -> str:
    """A line for each verdict."""
    lines = (
        f"{'ok' if one['holds'] else 'MISS':<4} {one['figure']}: {one['found']}, {one['must_be']} {one['limit']}"
        for one in found
    )
    return "\n".join(lines)


def _at(summary: Mapping[str, Any], path: str) -> float | None:
    value: Any = summary
    for key in path.split("."):
        value = value.get(key) if isinstance(value, Mapping) else None
    return value if isinstance(value, int | float) else None


def _holds(value: float, must_be: str, limit: float) -> bool:
    match must_be:
        case "at least":
            return value >= limit
        case "at most":
            return value <= limit
    return value == limit

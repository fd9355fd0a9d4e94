"""What the commands of the store say: lines for people, values for programs."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

from ledger.store.why import ABSENT, Answer, Difference

_DIGITS = 12
_SHA256 = 64


def lines(answer: Answer) -> Iterator[str]:
    """An answer in lines: the key, the nearest one, and what differs."""
    asked, nearest = answer.asked, answer.nearest
    yield f"{asked.stage} {asked.key[:_DIGITS]} {answer.state}"
    if nearest is None:
        yield f"no other run of {asked.stage} is recorded in this store"
        return
    when = datetime.fromtimestamp(answer.recorded, UTC).strftime("%Y-%m-%d %H:%M")
    yield f"nearest of {answer.entries} others: {nearest.key[:_DIGITS]} ({nearest.place}, {when} UTC)"
    for one in answer.differences:
        yield from _difference(one, "  ")


def _difference(one: Difference, indent: str) -> Iterator[str]:
    if one.field == "source":
        files = [f"{file.field} {_fate(file)}" for file in one.because]
        yield f"{indent}source: {', '.join(files) or 'its files are not known'}"
        return
    behind = ", as of that" if one.because else f" (of {_short(one.key)})" if one.key else ""
    yield f"{indent}{one.field}: was {_short(one.was)}, is {_short(one.now)}{behind}"
    for inner in one.because:
        yield from _difference(inner, f"{indent}  ")


def _fate(file: Difference) -> str:
    return "is new" if file.was == ABSENT else "is gone" if file.now == ABSENT else "changed"


def _short(value: Any) -> str:
    text = str(value)
    digest = len(text) == _SHA256 and set(text) <= set("0123456789abcdef")
    return text[:_DIGITS] if digest else text


def as_json(answer: Answer) -> dict[str, Any]:
    """An answer as JSON."""
    return {
        "stage": answer.asked.stage,
        "key": answer.asked.key,
        "place": answer.asked.place,
        "state": answer.state,
        "entries": answer.entries,
        "nearest": answer.nearest and answer.nearest.key,
        "differences": [_as_json(one) for one in answer.differences],
    }


def _as_json(one: Difference) -> dict[str, Any]:
    found = {"field": one.field, "was": one.was, "is": one.now} | ({"key": one.key} if one.key else {})
    return found | ({"because": [_as_json(inner) for inner in one.because]} if one.because else {})


def size(count: int) -> str:
    """A number of bytes for people."""
    units = ("B", "kB", "MB", "GB", "TB")
    amount, unit = float(count), 0
    while amount >= 1000 and unit < len(units) - 1:
        amount, unit = amount / 1000, unit + 1
    return f"{amount:.0f} {units[unit]}" if unit == 0 else f"{amount:.1f} {units[unit]}"

"""Tables for people, as lines of text."""

from __future__ import annotations

from collections.abc import Collection, Sequence


def aligned(rows: Sequence[Sequence[str]], figures: Collection[int] = ()) -> list[str]:
    """A line for each row, columns as wide as their widest cell: to the left, and to the right those of `figures`."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  ".join(_cells(row, widths, figures)).rstrip() for row in rows]


def _cells(row: Sequence[str], widths: Sequence[int], figures: Collection[int]) -> list[str]:
    return [
        cell.rjust(width) if column in figures else cell.ljust(width)
        for column, (cell, width) in enumerate(zip(row, widths, strict=True))
    ]

"""Tables in Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence


def table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """The table of `rows` below `head`."""
    return "".join(_lines(head, rows))


def _lines(head: Sequence[str], rows: Iterable[Sequence[object]]) -> Iterator[str]:
    for row in (head, ["---"] * len(head), *rows):
        # A bar ends a cell, and special tokens and file names hold some.
        yield "| " + " | ".join(str(cell).replace("|", "\\|") for cell in row) + " |\n"

"""What a chat shows: answers on one stream, thoughts and notes on another, so that a pipe gets answers alone."""

from __future__ import annotations

import os
from typing import TextIO

DIM, PLAIN = "\x1b[2m", "\x1b[0m"
# What a model says must not steer the terminal.
_HARMLESS = {code: "\ufffd" for code in (*range(32), *range(127, 160)) if chr(code) not in "\n\t"}


class Screen:
    """Answers on `out`; thoughts and notes on `aside`, dimmed if that is a terminal and NO_COLOR is not set."""

    def __init__(self, out: TextIO, aside: TextIO) -> None:
        self._out, self._aside = out, aside
        self._unfinished: TextIO | None = None

    def say(self, text: str) -> None:
        """A piece of an answer."""
        self._write(self._out, text)

    def think(self, text: str) -> None:
        """A piece of the thoughts before it."""
        self._write(self._aside, text, dim=True)

    def end(self) -> None:
        """Begin a new line, if something stands on this one."""
        if self._unfinished is not None:
            self._write(self._unfinished, "\n")

    def note(self, text: str, *, dim: bool = True) -> None:
        """A line about the chat."""
        self.end()
        self._write(self._aside, text, dim=dim)
        self.end()

    def _write(self, where: TextIO, text: str, *, dim: bool = False) -> None:
        if not text:
            return
        if self._unfinished not in (None, where):
            self.end()
        shown = text.translate(_HARMLESS) if where.isatty() else text
        where.write(f"{DIM}{shown}{PLAIN}" if dim and where.isatty() and "NO_COLOR" not in os.environ else shown)
        where.flush()
        self._unfinished = None if text.endswith("\n") else where

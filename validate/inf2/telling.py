"""What a person is told: text that may be anybody's, to a reader who may be gone."""

from __future__ import annotations

import os
import sys

from ledger.stage import say

_INSTEAD = "\N{REPLACEMENT CHARACTER}"


def printable(text: str) -> str:
    """The text without what a terminal would obey."""
    return "".join(one if one.isprintable() else _INSTEAD for one in text.expandtabs())


def tell(line: str) -> None:
    """A line on stdout; a reader that has gone is no reason to stop."""
    try:
        say(printable(line))
    except OSError:
        # Python writes what is left once more when it ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def progress(line: str) -> None:
    """A line on stderr, beside a result on stdout."""
    sys.stderr.write(f"{line}\n")

"""Command lines: a wrong flag is one sentence and exit code 2, not a page of usage; paths are checked before the work.

The textbook opens an output file when there is something to write. Here that may be an hour later, so a path that
cannot become a file or a folder is refused at the start, with the flag that gave it.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

from ledger.errors import BadInput
from ledger.location import ACCEPTED

CACHE = "results/store"
_DIGITS = 9  # beyond them a count is a slip of the hand


class Parser(argparse.ArgumentParser):
    """An ArgumentParser that raises BadInput and takes no abbreviations."""

    def __init__(self, prog: str, description: str | None = None, *, add_help: bool = True) -> None:
        super().__init__(prog=prog, description=description, add_help=add_help, allow_abbrev=False)

    def error(self, message: str) -> NoReturn:
        """Raise what argparse found."""
        raise BadInput(f"{self.prog}: {message}; see --help")


def whole(least: int) -> Callable[[str], int]:
    """An argparse type: a whole number, `least` or more."""

    def convert(text: str) -> int:
        if not (text.isascii() and text.isdecimal()) or len(text) > _DIGITS or int(text) < least:
            raise argparse.ArgumentTypeError(f"found {text!r}; accepted: a whole number, {least} or more")
        return int(text)

    return convert


def add_location(parser: argparse.ArgumentParser, *, default: str | None = None) -> None:
    """Add --store, which must be given unless it has a default."""
    parser.add_argument(
        "--store", required=default is None, default=default, metavar="DIR|S3", help=f"the store: {ACCEPTED}"
    )


def add_store(parser: argparse.ArgumentParser, *, default: str | None = None) -> None:
    """Add --store and --cache: what `open_store` takes."""
    add_location(parser, default=default)
    parser.add_argument(
        "--cache",
        default=CACHE,
        metavar="DIR",
        help=f"folder that a store in S3 is read and written through, default {CACHE}",
    )


def check_file(flag: str, path: Path) -> None:
    """BadInput that names `flag` when no file can be written at `path`: it is a folder, or its parent is none.

    An empty path is the current folder, and so refused.
    """
    if path.is_dir():
        raise BadInput(f"{flag} {path} is a folder; accepted: the path of a file")
    check_folder(flag, path.parent)


def check_folder(flag: str, location: str | Path) -> None:
    """BadInput that names `flag` when `location` is empty, or is no folder and none can be made there.

    An empty path is the current folder, which nobody means who leaves a variable unset.
    """
    if not str(location):
        raise BadInput(f"{flag} is empty; accepted: a folder, or a path where one can be made")
    path = Path(location)
    there = next((one for one in (path, *path.parents) if one.exists()), None)
    if there and not there.is_dir():
        raise BadInput(f"{flag}: {there} is a file; accepted: a folder, or a path where one can be made")

"""Command lines of this package: a wrong flag is one sentence and exit code 2, not a page of usage."""

from __future__ import annotations

import argparse
from typing import NoReturn

from ledger.errors import BadInput


class Parser(argparse.ArgumentParser):
    """An ArgumentParser that raises BadInput and takes no abbreviations."""

    def __init__(self, prog: str, description: str | None = None, *, add_help: bool = True) -> None:
        super().__init__(prog=prog, description=description, add_help=add_help, allow_abbrev=False)

    def error(self, message: str) -> NoReturn:
        """Raise what argparse found."""
        raise BadInput(f"{self.prog}: {message}; see --help")

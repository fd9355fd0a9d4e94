"""The section `inf2` of the configuration files that a command is given."""

from __future__ import annotations

from pathlib import Path

from config.cloud import Inf2
from config.loading import load
from config.models import Factory
from ledger.errors import BadInput
from ledger.flags import Parser


def add_config(parser: Parser) -> None:
    """One argument or several: the configuration."""
    parser.add_argument(
        "config",
        nargs="+",
        type=Path,
        metavar="CONFIG",
        help="a configuration with a section inf2, merged as snakemake does",
    )


def configured(*config: Path) -> tuple[Factory, Inf2]:
    """A configuration and its section `inf2`; BadInput when it has none."""
    factory = load(*config)
    if factory.inf2 is None:
        raise BadInput(
            f"{' and '.join(map(str, config))}: inf2 is missing; accepted: a section as in config/defaults.yaml"
        )
    return factory, factory.inf2

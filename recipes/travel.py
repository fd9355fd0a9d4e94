"""Where a run has its receipts: in the working directory, or in the bucket that its files travel through.

Snakemake is told of a bucket by flags, most of them in a profile, so what looks at receipts beside it takes the very
flags that snakemake gets.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

from ledger.errors import BadInput
from ledger.flags import Parser
from ledger.location import bucket_of
from ledger.store.holding import Holding
from ledger.store.opening import open_holding

_PROVIDER, _PREFIX = "default-storage-provider", "default-storage-prefix"


def add_flags(parser: argparse.ArgumentParser) -> None:
    """Add --snakemake, which takes all that is left of the command line."""
    parser.add_argument(
        "--snakemake",
        nargs=argparse.REMAINDER,
        default=[],
        metavar="FLAG",
        help="last of all, the flags that snakemake gets: they tell of the bucket where queues without a shared file "
        "system leave receipts",
    )


def bucket_in(flags: Sequence[str]) -> Holding | None:
    """The files that travel, by their path in the working directory; None where they do not.

    BadInput for a profile or a bucket that is not there, and for --config, which would be another configuration.
    """
    parser = Parser("--snakemake", add_help=False)
    parser.add_argument("--workflow-profile", default="default")
    parser.add_argument("--config", "-C", nargs="*")
    for name in (_PROVIDER, _PREFIX):
        parser.add_argument(f"--{name}")
    given = vars(parser.parse_known_args(flags)[0])
    if given["config"] is not None:
        raise BadInput("--config: is not looked at here; accepted: one more file, which is merged over the others")
    said = _profile(given["workflow_profile"])
    provider, prefix = (given[name.replace("-", "_")] or said.get(name) for name in (_PROVIDER, _PREFIX))
    return open_holding(travelling(prefix), f"--{_PREFIX}") if provider == "s3" else None


def travelling(prefix: str | None) -> str:
    """The prefix of files that travel, where it is one of S3; BadInput for any other."""
    try:
        bucket = bucket_of(prefix or "")
    except ValueError:
        bucket = None
    if not prefix or bucket is None:
        raise BadInput(f"--{_PREFIX}: found {prefix!r}; accepted: s3://BUCKET/PREFIX")
    return prefix


def _profile(name: str) -> dict[str, Any]:
    """A profile, found where snakemake looks for it."""
    if name == "none":
        return {}
    folder = next((one for one in (Path(name), Path("profiles", name)) if one.exists()), Path(name))
    path = folder / "config.yaml"
    if name == "default" and not path.exists():
        return {}
    accepted = "accepted: a folder with a profile of snakemake, as profiles/slurm is"
    try:
        said = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, yaml.YAMLError) as error:
        raise BadInput(
            f"--workflow-profile: {path} cannot be read: {' '.join(str(error).split())}; {accepted}"
        ) from None
    if not isinstance(said, dict):
        raise BadInput(f"--workflow-profile: {path} holds no mapping; {accepted}")
    return {key: os.path.expandvars(str(value)) for key, value in said.items()}

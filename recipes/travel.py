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

_PROVIDER, _PREFIX, _SHARED = "default-storage-provider", "default-storage-prefix", "shared-fs-usage"
_FILES = "one more file of configuration, which is merged over the others"
# Flags of snakemake after which a look from here would be at something else, and what is accepted in their place.
_OTHERS = {
    "--config -C": _FILES,
    "--configfile --configfiles": _FILES,
    "--directory -d": "the command in that folder",
}


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


def bucket_in(flags: Sequence[str], store: str) -> Holding | None:
    """The files that travel, by their path in the working directory; None where they do not.

    BadInput for a profile or a bucket that is not there, a `store` that no job would see, and for flags with which
    snakemake would run another configuration, in another folder, or nothing for ever.
    """
    parser = Parser("--snakemake", add_help=False)
    parser.add_argument("--workflow-profile", default="default")
    parser.add_argument("--cores", "-c", nargs="?")
    for name in _OTHERS:
        parser.add_argument(*name.split(), nargs="*", dest=name.split()[0])
    for name in (_PROVIDER, _PREFIX, _SHARED):
        parser.add_argument(f"--{name}", dest=name)
    given = vars(parser.parse_known_args(flags)[0])
    for name, accepted in _OTHERS.items():
        if given[name.split()[0]] is not None:
            raise BadInput(f"{name.split()[0]}: is not looked at here; accepted: {accepted}")
    if given["cores"] == "0":
        raise BadInput("--cores: found '0'; accepted: a whole number, 1 or more, or all")
    said = _profile(given["workflow_profile"])
    provider, prefix, shared = (given[name] or said.get(name) for name in (_PROVIDER, _PREFIX, _SHARED))
    if provider != "s3":
        return None
    if shared == "none":
        require_shared(store)
    return open_holding(travelling(prefix), f"--{_PREFIX}")


def require_shared(store: str) -> None:
    """BadInput for a store that jobs do not see where they share no file system."""
    if bucket_of(store) is None:
        raise BadInput(
            f"store is {store!r}; accepted where jobs share no file system with this machine: s3://BUCKET/PREFIX"
        )


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
        reason = error.strerror if isinstance(error, OSError) else " ".join(str(error).split())
        raise BadInput(f"--workflow-profile: {path} cannot be read: {reason}; {accepted}") from None
    if not isinstance(said, dict):
        raise BadInput(f"--workflow-profile: {path} holds no mapping; {accepted}")
    return {key: os.path.expandvars(str(value)) for key, value in said.items()}

"""Which source made a release: the commit of this tree, and whether the tree differs from it."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from pathlib import Path

from ledger.sources import ROOT

UNKNOWN = "unknown"


@dataclass(frozen=True)
class Source:
    """`commit` is 40 hexadecimal digits, or "unknown" outside of a repository; `dirty` is None where it is."""

    commit: str = UNKNOWN
    dirty: bool | None = None


def read_source(root: Path = ROOT) -> Source:
    """The commit that the tree at `root` is checked out from; files that git does not know make it dirty too."""
    try:
        # A tree without a repository of its own may lie inside somebody else's.
        top = _git(root, "rev-parse", "--show-toplevel")
        if Path(top).resolve() != root.resolve():
            return Source()
        return Source(_git(root, "rev-parse", "HEAD"), _git(root, "status", "--porcelain") != "")
    except (OSError, subprocess.CalledProcessError):
        return Source()


def _git(root: Path, *arguments: str) -> str:
    command = ["git", "-C", str(root), "--no-optional-locks", *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()

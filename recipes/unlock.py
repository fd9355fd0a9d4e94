"""Removes the lock that a killed snakemake left behind: `python -m recipes.unlock`.

Snakemake locks a working directory with files that outlive it, and cannot tell a killed run from one at
work. Here the lock is removed only when the process table (Linux) has no snakemake that works in the
directory. Nothing else needs recovering: stages write whole files or none.
"""

import sys
from collections.abc import Iterator
from pathlib import Path

import psutil

from ledger.errors import BadInput, run_cli

LOCKS = Path(".snakemake", "locks")


def main() -> int:
    """Remove a stale lock of the working directory; BadInput when a run is at work."""
    locks = list(LOCKS.glob("*.lock"))
    if not locks:
        return 0
    at_work = next(runs_in(Path.cwd()), None)
    if at_work:
        raise BadInput(f"{LOCKS}: snakemake (process {at_work}) works in this folder; accepted: one run at a time")
    for lock in locks:
        lock.unlink(missing_ok=True)
    sys.stdout.write("removed the lock of a run that was killed\n")
    return 0


def runs_in(folder: Path) -> Iterator[int]:
    """Ids of the processes that run snakemake in `folder`, as a module or as a command."""
    for process in psutil.process_iter():
        try:
            words = process.cmdline()[1:3]
            if not any(Path(word).name == "snakemake" for word in words):
                continue
            if Path(process.cwd()).samefile(folder):
                yield process.pid
        except (psutil.Error, OSError):
            # It ended meanwhile, or belongs to somebody else who could not write here.
            continue


if __name__ == "__main__":
    run_cli(main)

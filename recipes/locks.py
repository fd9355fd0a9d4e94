"""The lock that snakemake leaves on a working directory: whose it is, and its removal.

It outlives its run and says nothing of it, so a run leaves the name of its machine beside it. A folder that several
machines see is unlocked on that machine alone, as another's process table tells nothing. Elsewhere the name is not
looked at: it is new for each container.
"""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path

import psutil

from ledger.atomic import write_bytes
from ledger.errors import BadInput
from ledger.stage import say

LOCKS = Path(".snakemake", "locks")
_HOST = Path(".snakemake", "host")
# File systems as the kernel calls them that are of one machine and no server.
_LOCAL = {"ext2", "ext3", "ext4", "xfs", "btrfs", "zfs", "f2fs", "overlay", "tmpfs", "fuse.fuse-overlayfs", "9p"}


def mark() -> None:
    """Say that a run of this machine works in the working directory."""
    write_bytes(_HOST, socket.gethostname().encode())


def unlock() -> None:
    """Remove the lock of a run that was killed; BadInput where one is at work, or may be on another machine."""
    locks = list(LOCKS.glob("*.lock"))
    if not locks:
        return
    at_work = next(runs_in(Path.cwd()), None)
    if at_work:
        raise BadInput(f"{LOCKS}: snakemake (process {at_work}) works in this folder; accepted: one run at a time")
    host = _HOST.read_text() if _HOST.is_file() else socket.gethostname()
    if host != socket.gethostname() and is_shared(Path.cwd()):
        raise BadInput(
            f"{LOCKS}: a run was started on {host}, which shares this folder; accepted: this command there, or "
            "snakemake --unlock here once nothing is at work"
        )
    for lock in locks:
        lock.unlink(missing_ok=True)
    say("removed the lock of a run that was killed")


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


def is_shared(folder: Path) -> bool:
    """Whether other machines may see the folder: its file system is none that is known to be of one machine."""
    path = folder.resolve()
    mounts = {Path(one.mountpoint): one.fstype for one in psutil.disk_partitions(all=True)}
    mount = next((one for one in (path, *path.parents) if one in mounts), None)
    return mount is not None and mounts[mount] not in _LOCAL

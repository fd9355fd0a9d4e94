"""The process between a stage and its build: however the stage ends, nothing of the build is left, at work or on disk.

    python -IS keeper.py WORK PROGRAM ARGUMENT...    its log is stderr

Stdin is a pipe that the stage holds open for as long as it wants the build, and its files in WORK. The build's exit
status, as Python gives it, is a line on stdout. Whatever lock this process was given stays held until all has ended.
Departs from a parent-death signal: that one reaches one process, and only when it comes to its senses; SIGKILL of a
stage is seen here, and compilers that moved to a session of their own are found, as orphans come to this process.
"""

from __future__ import annotations

import ctypes
import os
import select
import shutil
import signal
import subprocess
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path

_DEATH_SIGNAL, _SUBREAPER = 1, 36  # prctl(2)


def main(work: Path, command: Sequence[str]) -> None:
    """Build; then wait until the stage has what it wants, or is gone."""
    prctl = ctypes.CDLL(None).prctl
    prctl(_SUBREAPER, 1, 0, 0, 0)
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
        # Not ignored, which the build would inherit: these are for the stage, and its end is seen on the pipe.
        signal.signal(number, lambda *_: None)
    build = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=2,
        stderr=2,
        # The build holds the lock as well, and ends with this process should that be killed.
        close_fds=False,
        preexec_fn=partial(prctl, _DEATH_SIGNAL, signal.SIGKILL),  # noqa: PLW1509  (no threads here)
    )
    ended = os.pidfd_open(build.pid)
    ready, _, _ = select.select([0, ended], [], [])
    status = build.wait() if ended in ready else None
    # A build that is killed leaves its compilers at work, in the memory that the next one needs.
    _end_all()
    if status is not None:
        sys.stdout.write(f"{status}\n")
        sys.stdout.flush()
    os.read(0, 1)
    shutil.rmtree(work, ignore_errors=True)


def _end_all() -> None:
    """Kill every process below this one, and wait until it is gone."""
    while True:
        for pid in _children():
            os.kill(pid, signal.SIGKILL)
        try:
            os.waitpid(-1, 0)
        except ChildProcessError:
            return


def _children() -> list[int]:
    """Children of this process, and those of dead ones that were."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            stat = (folder / "stat").read_bytes()
        except OSError:
            continue
        # State and parent come after the name, which may hold anything.
        if int(stat.rpartition(b")")[2].split()[1]) == os.getpid():
            found.append(int(folder.name))
    return found


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])

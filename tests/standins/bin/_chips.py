"""What the stand-in tools know of this host: chips from STANDIN_DEVICES, holders from the files under STANDIN_ROOT.

A process that holds core N keeps `STANDIN_ROOT/cores/N` open; the file says its pid.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

CORES, MEMORY = 2, 32 << 30
RUNTIME = "2.30.51.0+standin"


def chips() -> int:
    """Chips of this host."""
    return int(os.environ.get("STANDIN_DEVICES", "1"))


def holders() -> dict[int, int]:
    """Pid of the process that holds each held core; files of the dead count for nothing."""
    root = os.environ.get("STANDIN_ROOT") or Path(tempfile.gettempdir()) / f"neuron-standin-{os.getuid()}"
    found = {}
    for file in sorted(Path(root, "cores").glob("[0-9]*")):
        text = file.read_text()
        if text.strip().isdigit() and _has_open(int(text), file):
            found[int(file.name)] = int(text)
    return found


def command(pid: int) -> str:
    """The command line of a process, as it was started; empty when it has gone."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
    except OSError:
        return ""


def resident(pid: int) -> int:
    """Resident bytes of a process; 0 when it has gone."""
    try:
        pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    except (OSError, IndexError):
        return 0
    return pages * os.sysconf("SC_PAGE_SIZE")


def tag(pid: int) -> str:
    """NEURON_PROCESS_TAG of a process, else its pid."""
    try:
        variables = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        variables = []
    named = [v.partition(b"=")[2].decode() for v in variables if v.startswith(b"NEURON_PROCESS_TAG=")]
    return named[0] if named else str(pid)


def _has_open(pid: int, file: Path) -> bool:
    target = file.resolve()
    try:
        handles = list(Path(f"/proc/{pid}/fd").iterdir())
    except OSError:
        return False
    for handle in handles:
        try:
            if handle.readlink() == target:
                return True
        except OSError:
            continue
    return False

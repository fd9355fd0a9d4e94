"""Memory, swap, disk and open files of this machine against what a matrix needs."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from resource import RLIM_INFINITY, RLIMIT_NOFILE, getrlimit

from recipes.doctor.finding import Finding
from recipes.doctor.pins import ROOT

GIB = 1 << 30
CPU_MEMORY, CPU_DISK = 8 * GIB, 8_000_000_000
OPEN_FILES = 65_535
"""What the SDK asks for where one process loads several graphs (torch_neuronx.bucket_model_trace)."""
_CGROUP = Path("/sys/fs/cgroup")


@dataclass(frozen=True)
class Memory:
    """Bytes of memory and swap that a process here can have, limits of a container counted."""

    ram: int
    swap: int

    @property
    def total(self) -> int:
        """Both together."""
        return self.ram + self.swap

    def __str__(self) -> str:
        return f"{self.ram / GIB:.1f} GiB and {self.swap / GIB:.1f} GiB of swap"


def memory(meminfo: Path = Path("/proc/meminfo"), cgroup: Path = _CGROUP) -> Memory:
    """Memory of this machine or container (cgroup v2)."""
    lines = (line.partition(":") for line in meminfo.read_text(encoding="ascii").splitlines())
    kib = {name: int(rest.split()[0]) for name, _, rest in lines if rest.split()}
    ram, swap = kib["MemTotal"] * 1024, kib.get("SwapTotal", 0) * 1024
    return Memory(min(ram, _limit(cgroup / "memory.max", ram)), min(swap, _limit(cgroup / "memory.swap.max", swap)))


def _limit(path: Path, otherwise: int) -> int:
    with suppress(OSError, ValueError):
        return int(path.read_text(encoding="ascii"))
    return otherwise


def memory_for(what: str, have: Memory, peaks: Sequence[tuple[str, int]]) -> Finding:
    """Whether each of the `peaks` (variant, bytes) fits; wrong only when none does."""
    name, most = max(peaks, key=lambda one: one[1])
    small, least = min(peaks, key=lambda one: one[1])
    accepted = f"{most / GIB:.1f} GiB for {name}"
    if have.total >= most:
        return Finding(f"memory to {what}", "ok", str(have), accepted)
    short = [one for one, size in peaks if size > have.total]
    if have.total < least:
        how = f"add {(least - have.total) / GIB:.0f} GiB of memory or swap for the smallest variant, {small}"
        return Finding(f"memory to {what}", "wrong", str(have), f"{least / GIB:.1f} GiB for {small}", how)
    how = f"{len(peaks) - len(short)} of {len(peaks)} variants fit; {(most - have.total) / GIB:.0f} GiB more, as swap"
    how += f" or on a larger instance, for {', '.join(short[:3])}" + (" and others" if len(short) > 3 else "")
    return Finding(f"memory to {what}", "note", str(have), accepted, how)


def disk(what: str, need: int, folder: Path = ROOT) -> Finding:
    """Free space on the disk of `folder`."""
    while not folder.exists():
        folder = folder.parent
    free = shutil.disk_usage(folder).free
    found, accepted = f"{free / 1e9:,.0f} GB free at {folder}", f"about {need / 1e9:,.0f} GB to {what}"
    if free >= need:
        return Finding("disk", "ok", found, accepted)
    how = f"free {(need - free) / 1e9:,.0f} GB, or set `store` to a larger disk and build fewer variants at a time"
    return Finding("disk", "note", found, accepted, how)


def open_files() -> Finding:
    """The soft limit of open files, which a process may raise up to the hard one."""
    soft, hard = getrlimit(RLIMIT_NOFILE)
    found = f"{soft}, at most {hard}"
    if soft == RLIM_INFINITY or soft >= OPEN_FILES:
        return Finding("open files", "ok", found, f"{OPEN_FILES}")
    return Finding("open files", "note", found, f"{OPEN_FILES}", f"ulimit -n {OPEN_FILES} in the shell that starts it")


def of_matrix(config: Path, check: Callable[[Path], Iterator[Finding]]) -> Iterator[Finding]:
    """The findings of `check`, or one that says why they cannot be told here."""
    try:
        yield from check(config)
    except ModuleNotFoundError as error:
        yield Finding("memory, disk", "unknown", f"needs {error.name} to count", f"what {config} needs")

"""Whether this host has the memory that an artifact needs, asked before anything is read."""

from __future__ import annotations

from math import prod
from pathlib import Path

from serve.errors import ServeError
from serve.manifest import Manifest
from serve.tensorfile import NUMPY

_BASE = 300_000_000  # interpreter, libraries, compiled graphs


def needed_bytes(manifest: Manifest) -> int:
    """Weights, tables unless they stay on disk, KV state and a fixed part.

    Weights that a device holds pass through the host as well, one rank after the other.
    """
    point = manifest.variant
    weights = [file.bytes for file in manifest.weights]
    states = manifest.step.signature.named("state").values()
    state = sum(prod(one.shape) * NUMPY[one.dtype].itemsize for one in states) * point.tp
    on_host = sum(weights) + state if point.target == "cpu" else max(weights, default=0)
    return _BASE + on_host + (0 if point.slim else manifest.tables.bytes)


def check_memory(manifest: Manifest, available: int) -> None:
    """ServeError when `available` bytes are too few."""
    needed = needed_bytes(manifest)
    if needed > available:
        raise ServeError(
            f"variant {manifest.variant.name} needs about {needed / 1e9:.2f} GB of memory; "
            f"this host has {available / 1e9:.2f} GB free; a host or container with more is accepted"
        )


def available_bytes(root: Path = Path("/")) -> int:
    """What a process may still take: the kernel's own estimate, or what is left of the container's limit."""
    lines = (root / "proc/meminfo").read_text().splitlines()
    found = next(int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable:"))
    group = root / "sys/fs/cgroup"
    for limit, used in (
        ("memory.max", "memory.current"),
        ("memory/memory.limit_in_bytes", "memory/memory.usage_in_bytes"),
    ):
        try:
            most = (group / limit).read_text().strip()
            if most.isdecimal():
                # The page cache of the group is counted as used and given back when needed.
                found = min(found, int(most) - max(0, int((group / used).read_text()) - _cached(group, limit)))
        except OSError:
            continue
    return found


def _cached(group: Path, limit: str) -> int:
    lines = ((group / limit).parent / "memory.stat").read_text().splitlines()
    names = ("inactive_file", "active_file")
    return sum(int(line.split()[1]) for line in lines if line.split()[0] in names)

"""What an executable built for one CPU needs of another."""

from __future__ import annotations

from pathlib import Path


def cpu_features() -> tuple[str, ...]:
    """The vector extensions of this host that XLA:CPU may use, sorted (Linux, x86-64)."""
    text = Path("/proc/cpuinfo").read_text()
    flags = next((line for line in text.splitlines() if line.startswith("flags")), "")
    return tuple(sorted(name for name in flags.split() if name.startswith(("avx", "fma", "f16c", "amx", "sse4"))))

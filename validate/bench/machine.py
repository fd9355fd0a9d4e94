"""What a measurement was taken on, as far as this machine tells."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import psutil


def machine() -> dict[str, Any]:
    """CPU model, CPUs, memory in 10**9 bytes, and the load before: a figure from a busy machine says little."""
    text = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    models = (line.partition(":")[2].strip() for line in text.splitlines() if line.startswith("model name"))
    return {
        "cpu_model": next(models, "unknown"),
        "cpus": os.cpu_count(),
        "memory_gb": round(psutil.virtual_memory().total / 1e9, 1),
        "load_average_before": round(os.getloadavg()[0], 2),
    }

"""How the tests of neuronx_distributed's stand-in start their subjects."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.standins import environment

REPOSITORY = Path(__file__).parents[2]


def settings(folder: Path) -> dict[str, str]:
    """A target, and a host and a compile cache that are `folder`'s own."""
    return {
        "NEURON_PLATFORM_TARGET_OVERRIDE": "inf2",
        "NEURON_COMPILE_CACHE_URL": str(folder / "cache"),
        "STANDIN_ROOT": str(folder / "host"),
    }


def started(folder: Path, *command: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run Python in `folder` as a program of its own, which is what spawned ranks need of their parent."""
    path = os.pathsep.join([environment()["PYTHONPATH"], str(REPOSITORY)])
    told = {**environment(), **settings(folder), "PYTHONPATH": path, **variables}
    words = [sys.executable, *command]
    return subprocess.run(words, cwd=folder, env=told, capture_output=True, text=True, timeout=300, check=False)

"""Programs of the Neuron SDK: where they are, and what they say."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

TOOLS = Path("/opt/aws/neuron/bin")
"""Where aws-neuronx-tools puts its programs; not on the PATH of every shell."""
_SECONDS = 60


def find(program: str) -> Path | None:
    """The program on PATH, else among AWS's tools."""
    found = shutil.which(program) or shutil.which(program, path=str(TOOLS))
    return Path(found) if found else None


def beside_python(program: str) -> Path | None:
    """The program in the bin folder of the running interpreter, on PATH or not."""
    path = Path(sys.executable).parent / program
    return path if os.access(path, os.X_OK) else None


def ask(program: Path | str, *arguments: str, seconds: float = _SECONDS) -> tuple[int, str, str]:
    """Exit code, stdout and stderr; -1 and the reason when it cannot be run or does not end in time.

    It runs in an empty folder, as neuronx-cc leaves files where it runs.
    """
    command: Sequence[str] = [str(program), *arguments]
    with tempfile.TemporaryDirectory() as folder:
        try:
            done = subprocess.run(
                command,
                cwd=folder,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                errors="replace",
                timeout=seconds,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return -1, "", f"did not end within {seconds:.0f} s"
        except OSError as error:
            return -1, "", error.strerror or str(error)
    return done.returncode, done.stdout, done.stderr

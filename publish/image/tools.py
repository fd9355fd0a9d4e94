"""Programs of Debian that images are made and moved with, and the one sentence when one is not there or fails."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ledger.errors import BadInput


@dataclass(frozen=True)
class Done:
    """What a program that has ended left: its code, what it printed, and its messages."""

    code: int
    printed: bytes
    messages: str


def need(name: str) -> str:
    """The path of a program; BadInput when this machine has none."""
    # Administrators' programs are not on everybody's path.
    found = shutil.which(name, path=f"{os.environ.get('PATH', os.defpath)}:/usr/sbin:/sbin")
    if found is None:
        raise BadInput(f"{name} is not installed; accepted: a machine with it, as `make system` leaves one")
    return found


def run(
    command: Sequence[str | Path],
    *,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    text: str = "",
) -> Done:
    """Run a program to its end with `text` as its input and `env` added to the environment. It may have failed."""
    full = [need(str(command[0])), *map(str, command[1:])]
    # Messages are read: they must be English.
    whole = {**os.environ, "LC_ALL": "C.UTF-8", **(env or {})}
    done = subprocess.run(full, cwd=cwd, env=whole, input=text.encode(), capture_output=True, check=False)
    return Done(done.returncode, done.stdout, done.stderr.decode(errors="replace"))


def must(
    command: Sequence[str | Path],
    what: str,
    *,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    text: str = "",
) -> bytes:
    """`run`, and what was printed; BadInput with the program's last words when it failed."""
    done = run(command, cwd=cwd, env=env, text=text)
    if done.code:
        said = last_words(done.messages) or last_words(done.printed.decode(errors="replace"))
        raise BadInput(f"{what}: {Path(command[0]).name} failed: {said or f'exit code {done.code}'}")
    return done.printed


def last_words(printed: str) -> str:
    """The last line that says something."""
    lines = [line.strip() for line in printed.splitlines() if line.strip()]
    return lines[-1] if lines else ""

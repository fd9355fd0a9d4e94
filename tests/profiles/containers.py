"""Containers on this machine: a command in an empty folder, with nothing of the environment that started it.

What a queue gives a job that shares no file system with who asked: so whatever a job needs and was not handed over
through the bucket is not there. The image is the environment of `make queues`; pip is a stand-in that says what it was
asked for.
"""

from __future__ import annotations

import os
import signal
import subprocess
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock

from ledger.sources import ROOT

QUEUES = ROOT / ".venv" / "queues" / "bin"
_PIP = '#!/bin/sh\necho "pip $*"\n'


@dataclass
class Container:
    """One container, at work or ended."""

    folder: Path
    process: subprocess.Popen[bytes]

    @property
    def code(self) -> int | None:
        """Its exit code; None while it works."""
        return self.process.poll()

    @property
    def said(self) -> str:
        """What it wrote to stdout and stderr."""
        return (self.folder.parent / f"{self.folder.name}.log").read_text()

    def stop(self) -> None:
        """End it and all that it started."""
        if self.code is None:
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()


@dataclass
class Host:
    """Where containers run, below `folder`, each with the variables `env`, as its role gives them."""

    folder: Path
    env: Mapping[str, str]
    containers: dict[str, Container] = field(default_factory=dict)
    _lock: Lock = field(default_factory=Lock)

    def run(self, command: Sequence[str], env: Mapping[str, str]) -> str:
        """Start a container; returns its id."""
        name = uuid.uuid4().hex
        folder = self.folder / name
        programs = self.folder / "programs"
        with self._lock:
            folder.mkdir(parents=True)
            if not programs.exists():
                programs.mkdir()
                (programs / "pip").write_text(_PIP)
                (programs / "pip").chmod(0o755)
        path = f"{programs}:{QUEUES}:/usr/bin:/bin"
        known = {"PATH": path, "HOME": str(folder), "LANG": "C.UTF-8", **self.env, **env}
        with (self.folder / f"{name}.log").open("wb") as log:
            process = subprocess.Popen(
                command, cwd=folder, env=known, stdout=log, stderr=log, stdin=subprocess.DEVNULL, start_new_session=True
            )
        self.containers[name] = Container(folder, process)
        return name


@contextmanager
def host(folder: Path, env: Mapping[str, str]) -> Iterator[Host]:
    """A host whose containers end with it."""
    made = Host(folder, env)
    try:
        yield made
    finally:
        for container in made.containers.values():
            container.stop()

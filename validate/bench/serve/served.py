"""A server as a user starts it, in a process of its own, and what it says of itself."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import psutil

from ledger.errors import BadInput
from ledger.sources import ROOT

PREFIX = "neff_foundry_"
_PATIENCE = 120.0  # seconds to end
_LOOK = 0.1  # seconds between two looks at one that starts
_LINE = re.compile(r"^([a-z_]+(?:\{[^}]*\})?) ([-+.0-9eE]+)$")


class Served:
    """A running server; `log` is where its standard error goes."""

    def __init__(self, process: subprocess.Popen[bytes], url: str) -> None:
        self.url = url
        self._process = process
        self._proc = psutil.Process(process.pid)

    def rss_mb(self) -> float:
        """Resident memory in 10**6 bytes."""
        return float(self._proc.memory_info().rss) / 1e6

    def metrics(self) -> dict[str, float]:
        """The server's own figures, named without their prefix."""
        with urllib.request.urlopen(f"{self.url}/metrics", timeout=30) as response:
            return parse_metrics(response.read().decode())


def parse_metrics(text: str) -> dict[str, float]:
    """Samples of Prometheus' text format, by name and labels, named without our prefix."""
    found = (_LINE.match(line) for line in text.splitlines())
    return {match[1].removeprefix(PREFIX): float(match[2]) for match in found if match}


@contextmanager
def served(
    command: Sequence[str], *, address: str | None = None, environment: Mapping[str, str] | None = None
) -> Iterator[Served]:
    """The server that `command` starts, from when it is ready until it has ended after SIGTERM.

    Ready is a line on stderr that says so, with the address; a server that was told its `address` is ready when it
    answers there. BadInput with its last words when it ends before.
    """
    with tempfile.TemporaryFile() as log:
        process = subprocess.Popen(
            command, cwd=ROOT, stdout=log, stderr=log, env=os.environ | dict(environment or {}), start_new_session=True
        )
        try:
            while not (url := _answering(address) if address else _announced(_said(log.fileno()))):
                if process.poll() is not None:
                    last = (_said(log.fileno()).strip().splitlines() or ["no word"])[-1]
                    raise BadInput(f"the server ended with code {process.returncode} before it was ready: {last[:300]}")
                time.sleep(_LOOK)
            yield Served(process, url)
            process.send_signal(signal.SIGTERM)
            process.wait(_PATIENCE)
        finally:
            process.kill()
            process.wait()


@contextmanager
def artifact(folder: Path, *flags: str) -> Iterator[Served]:
    """`python -m serve` on an artifact, on a free port."""
    with served([sys.executable, "-m", "serve", str(folder.resolve()), "--port", "0", *flags]) as one:
        yield one


def free_port() -> int:
    """A port that nobody listens on."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


def _said(log: int) -> str:
    return os.pread(log, os.fstat(log).st_size, 0).decode(errors="replace")


def _announced(said: str) -> str:
    line = next((line for line in said.splitlines(keepends=True) if '"ready"' in line and line.endswith("\n")), None)
    return str(json.loads(line)["address"]) if line else ""


def _answering(address: str) -> str:
    try:
        with urllib.request.urlopen(f"{address}/health", timeout=5):
            return address
    except OSError:
        return ""

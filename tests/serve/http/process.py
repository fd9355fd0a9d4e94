"""Servers as processes of their own, over an artifact or a scripted model.

python -m tests.serve.http.process FOLDER [flags] is one whose model repeats the prompt for ever; a step takes no time,
and SIGTERM is handled as in `python -m serve`.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import uvloop

from serve.errors import ServeError
from serve.http.log import configure
from serve.http.opening import Opened, Say
from serve.http.server import serve
from serve.http.settings import parse
from tests.serve.http.scripted import Source


class Server:
    """A running server and what it logs, which a thread reads: a pipe that nobody empties would stop the server."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process, self.port = process, 0
        self.lines: list[str] = []
        self._known = threading.Event()
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def descriptors(self) -> int:
        """Open file descriptors of the process."""
        return len(list(Path(f"/proc/{self.process.pid}/fd").iterdir()))

    def until_ready(self) -> None:
        """AssertionError when it ends instead."""
        assert self._known.wait(120)
        assert self.port, f"exit {self.process.wait()} before it was ready: {self.lines[-5:]}"

    def until_idle(self) -> None:
        """Until no answer runs or waits; AssertionError after ten seconds."""
        deadline = time.monotonic() + 10
        while time.monotonic() < deadline:
            with urllib.request.urlopen(f"{self.url}/metrics") as page:
                lines = page.read().decode().splitlines()
            if {f"neff_foundry_num_requests_{kind} 0.0" for kind in ("running", "waiting")} <= set(lines):
                return
        raise AssertionError("slots are still held")

    def terminate(self) -> None:
        self.process.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.process.kill()
        self._reader.join()

    def wait(self) -> tuple[int, list[dict[str, Any]]]:
        """The exit code and the log."""
        code = self.process.wait(20)
        self._reader.join()
        return code, [json.loads(line) for line in self.lines if line.startswith("{")]

    def _read(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.lines.append(line)
            if '"event": "ready"' in line:
                self.port = int(json.loads(line)["address"].rsplit(":", 1)[1])
                self._known.set()
        self._known.set()


@contextmanager
def started(command: Sequence[str], environment: Mapping[str, str]) -> Iterator[Server]:
    """The server of a command, on a free port, once it is ready; killed at the end if it still runs."""
    with subprocess.Popen([*command, "--port", "0"], stderr=subprocess.PIPE, text=True, env=environment) as process:
        running = Server(process)
        try:
            running.until_ready()
            yield running
        finally:
            running.kill()


def server(folder: Path, *flags: str, batch: int = 4) -> AbstractContextManager[Server]:
    """A server over the scripted model with the text files of `folder`."""
    command = [sys.executable, "-m", "tests.serve.http.process", str(folder), *flags]
    return started(command, os.environ | {"SLOTS": str(batch)})


class _Damaged(Source):
    """What turns out to be damaged while it is loaded."""

    def load(self, say: Say) -> Opened:
        say("reading")
        raise ServeError(os.environ["DAMAGE"])


def _main() -> int:
    settings = parse(sys.argv[1:])
    configure()
    try:
        source = Source(settings.artifact, lambda prompt: prompt * 50, int(os.environ["SLOTS"]))
        if "DAMAGE" in os.environ:
            source = _Damaged(settings.artifact, lambda prompt: prompt, 1)
        return uvloop.run(serve(settings, source))
    except ServeError as error:
        sys.stderr.write(f"error: {error}\n")
        return error.exit_code


if __name__ == "__main__":
    os._exit(_main())

"""The server as a process of its own, over a scripted model: python -m tests.serve.http.process FOLDER [flags].

The model repeats the prompt for ever, a step takes no time, and SIGTERM is handled as in `python -m serve`.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from serve.errors import ServeError
from serve.http.log import configure
from serve.http.opening import Opened, Say
from serve.http.server import serve
from serve.http.settings import parse
from tests.serve.http.scripted import Source


class Server:
    """A running server and what it logged."""

    def __init__(self, process: subprocess.Popen[str], port: int) -> None:
        self.process, self.port = process, port
        self.url = f"http://127.0.0.1:{port}"

    def descriptors(self) -> int:
        """Open file descriptors of the process."""
        return len(list(Path(f"/proc/{self.process.pid}/fd").iterdir()))

    def terminate(self) -> None:
        self.process.send_signal(signal.SIGTERM)

    def wait(self) -> tuple[int, list[dict[str, Any]]]:
        """The exit code and the rest of the log."""
        _, log = self.process.communicate(timeout=20)
        return self.process.returncode, [json.loads(line) for line in log.splitlines() if line.startswith("{")]


@contextmanager
def server(folder: Path, *flags: str, batch: int = 4) -> Iterator[Server]:
    """A server that is ready, on a free port; killed at the end if it still runs."""
    command = [sys.executable, "-m", "tests.serve.http.process", str(folder), "--port", "0", *flags]
    environment = os.environ | {"SLOTS": str(batch)}
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment)
    try:
        assert process.stderr is not None
        for line in process.stderr:
            if '"ready"' in line:
                yield Server(process, int(json.loads(line)["address"].rsplit(":", 1)[1]))
                return
        raise AssertionError(f"exit {process.wait()} before it was ready")
    finally:
        process.kill()
        process.communicate()


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
        return asyncio.run(serve(settings, source))
    except ServeError as error:
        sys.stderr.write(f"error: {error}\n")
        return error.exit_code


if __name__ == "__main__":
    os._exit(_main())

"""The terminal chat as a process of its own: typed ahead through a pipe, or at a pseudo-terminal."""

from __future__ import annotations

import os
import pty
import select
import signal
import subprocess
import sys
from contextlib import suppress
from typing import Self

COMMAND = [sys.executable, "-m", "serve.chat"]


def chat(url: str, typed: str, *flags: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """A chat in which everything is typed ahead."""
    known = {name: value for name, value in os.environ.items() if name not in ("API_KEY", "NO_COLOR")}
    return subprocess.run(
        [*COMMAND, "--url", url, *flags],
        input=typed,
        capture_output=True,
        encoding="utf-8",
        env=known | environment,
        timeout=30,
        check=False,
    )


class Terminal:
    """A chat at a pseudo-terminal."""

    def __init__(self, url: str, *flags: str, **environment: str) -> None:
        self._master, slave = pty.openpty()
        known = {name: value for name, value in os.environ.items() if name not in ("NO_COLOR", "API_KEY")}
        env = known | {"TERM": "dumb"} | environment
        self.process = subprocess.Popen(
            [*COMMAND, "--url", url, *flags], stdin=slave, stdout=slave, stderr=slave, env=env
        )
        os.close(slave)
        self.shown = ""

    def until(self, text: str, seconds: float = 20.0) -> str:
        """What is shown up to `text`, since the last call; TimeoutError when nothing comes for so long."""
        while text not in self.shown:
            if not select.select([self._master], [], [], seconds)[0]:
                raise TimeoutError(f"{text!r} does not come after {self.shown!r}")
            self.shown += os.read(self._master, 4096).decode().replace("\r\n", "\n")
        before, _, self.shown = self.shown.partition(text)
        return before

    def type(self, text: str) -> None:
        os.write(self._master, text.encode())

    def interrupt(self, until: str) -> None:
        """Ctrl-C, again where it came just before the interpreter began to wait, which then does not see it."""
        for _ in range(40):
            self.process.send_signal(signal.SIGINT)
            with suppress(TimeoutError):
                self.until(until, 0.5)
                return
        raise TimeoutError(until)

    def leave(self) -> int:
        """The exit code after Ctrl-D, which must be typed at the prompt."""
        self.type("\x04")
        return self.process.wait(20)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self._master)

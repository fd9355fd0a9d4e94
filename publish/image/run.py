"""An image, started for real: what buildah unpacks and runs, as the image's own configuration says.

Isolation is chroot's, which works in a container and without cgroups: file system, user and environment are the
image's, network and processes are this host's. buildah passes no signal on, so the server gets it directly.
"""

from __future__ import annotations

import http.client
import json
import os
import signal
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import psutil

from ledger.errors import GateFailed
from publish.image.layout import read_layout
from publish.image.tools import must, need

_LOOPBACK = "127.0.0.1"
_READY_SECONDS = 120.0
_STOP_SECONDS = 30.0
_POLL_SECONDS = 0.05


class Container:
    """A running image; leaving it stops and removes it. `storage` keeps what buildah unpacked, for the next start."""

    def __init__(self, layout: Path, storage: Path, environment: Mapping[str, str] | None = None) -> None:
        """Of the `oci:` folder `layout`; `environment` is added to the image's. Nothing is started yet."""
        self._layout, self._environment = layout.resolve(), dict(environment or {})
        self._log = storage / "log"
        self._buildah = _buildah(storage)
        self._name = ""
        self._port = _free_port()

    def __enter__(self) -> Self:
        """Unpack and start; the server may not be ready yet."""
        self.unpack()
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop, and remove the container."""
        try:
            if self._process.poll() is None:
                self.stop()
        finally:
            must([*self._buildah, "rm", self._name], "removing the container")

    @property
    def address(self) -> str:
        """Where it answers."""
        return f"http://{_LOOPBACK}:{self._port}"

    def unpack(self) -> None:
        """Give the image to buildah, and make a container of it; BadInput when buildah is missing or fails."""
        self._log.parent.mkdir(parents=True, exist_ok=True)
        printed = must([*self._buildah, "from", "--quiet", f"oci:{self._layout}"], f"{self._layout}")
        self._name = printed.decode().split()[-1]

    def start(self) -> None:
        """Start what the configuration names as entry point, on a free port."""
        found = read_layout(self._layout).config["config"]
        command = [*found["Entrypoint"], *found.get("Cmd", [])]
        settings = {**self._environment, "PORT": str(self._port)}
        added = [f"--env={name}={value}" for name, value in settings.items()]
        whole = [*self._buildah, "run", "--isolation", "chroot", *added, self._name, "--", *command]
        self.started = time.monotonic()
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [need("buildah"), *map(str, whole[1:])], stdout=log, stderr=log, stdin=subprocess.DEVNULL
            )

    def wait_ready(self) -> None:
        """Until /ready says 200; GateFailed with the log's last line when the server ends, or after two minutes."""
        until = time.monotonic() + _READY_SECONDS
        while self._status("/ready") != http.client.OK:
            if self._process.poll() is not None:
                raise GateFailed(f"{self._layout} ended with {self._process.returncode}: {self.last_line()}")
            if time.monotonic() > until:
                raise GateFailed(f"{self._layout} is not ready after {_READY_SECONDS:.0f} s: {self.last_line()}")
            time.sleep(_POLL_SECONDS)

    def ask(self, prompt: str, max_tokens: int = 32) -> str:
        """The greedy answer to one message of a user; GateFailed when the server gives none."""
        body = {"model": self.model(), "messages": [{"role": "user", "content": prompt}], "temperature": 0}
        with closing(self._connection()) as connection:
            answer = _json(connection, "POST", "/v1/chat/completions", body | {"max_tokens": max_tokens})
        return str(answer["choices"][0]["message"]["content"])

    def stream(self, prompt: str, max_tokens: int = 32) -> Iterator[str]:
        """The pieces of the completion of `prompt`, as they come."""
        body = {"model": self.model(), "prompt": prompt, "temperature": 0, "max_tokens": max_tokens, "stream": True}
        with closing(self._connection()) as connection:
            connection.request("POST", "/v1/completions", json.dumps(body), {"content-type": "application/json"})
            for line in connection.getresponse():
                data = line.removeprefix(b"data: ").strip()
                if data and data != b"[DONE]":
                    yield str(json.loads(data)["choices"][0]["text"])

    def model(self) -> str:
        """The name of the model that is served."""
        with closing(self._connection()) as connection:
            return str(_json(connection, "GET", "/v1/models")["data"][0]["id"])

    def stop(self) -> int:
        """Send the server the image's stop signal; the exit code. GateFailed when it does not end in half a minute."""
        name = read_layout(self._layout).config["config"].get("StopSignal", "SIGTERM")
        self.server().send_signal(signal.Signals[name])
        try:
            return self._process.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
            raise GateFailed(f"{self._layout} goes on {_STOP_SECONDS:.0f} s after {name}: {self.last_line()}") from None

    def server(self) -> psutil.Process:
        """The process of the server itself; GateFailed when there is none (any more)."""
        below = psutil.Process(self._process.pid).children(recursive=True)
        for process in below:
            # buildah starts a copy of itself from memory, and that one the server.
            if "buildah" not in process.name():
                return process
        raise GateFailed(f"{self._layout}: no server runs in it: {self.last_line()}")

    def execute(self, command: Sequence[str]) -> bytes:
        """Run another program in the image, beside the server; what it printed."""
        return must([*self._buildah, "run", "--isolation", "chroot", self._name, "--", *command], command[0])

    def last_line(self) -> str:
        """The last line of what the server said."""
        lines = self._log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
        return lines[-1] if lines else "it said nothing"

    def _connection(self) -> http.client.HTTPConnection:
        return http.client.HTTPConnection(_LOOPBACK, self._port, timeout=_READY_SECONDS)

    def _status(self, path: str) -> int:
        with closing(self._connection()) as connection:
            try:
                connection.request("GET", path)
                return connection.getresponse().status
            except OSError:
                return 0


def discard(storage: Path) -> None:
    """Remove what containers left in `storage`: files that belong to the image's users, and mounts."""
    if (storage / "root").exists():
        must([*_buildah(storage), "rm", "--all"], f"{storage}")
        must([*_buildah(storage), "rmi", "--all", "--force"], f"{storage}")


def _buildah(storage: Path) -> list[str | Path]:
    # As another user than root buildah has no overlay without a helper program.
    driver = "overlay" if os.geteuid() == 0 else "vfs"
    return ["buildah", "--root", storage / "root", "--runroot", storage / "run", "--storage-driver", driver]


def _json(connection: http.client.HTTPConnection, method: str, path: str, body: Any = None) -> Any:
    connection.request(method, path, body and json.dumps(body), {"content-type": "application/json"})
    response = connection.getresponse()
    text = response.read()
    if response.status != http.client.OK:
        raise GateFailed(f"{path} answers {response.status}: {text[:200].decode(errors='replace')}; accepted: 200")
    return json.loads(text)


def _free_port() -> int:
    with socket.socket() as listener:
        listener.bind((_LOOPBACK, 0))
        return int(listener.getsockname()[1])

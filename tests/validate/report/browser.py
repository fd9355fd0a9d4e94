"""Headless Chromium over its DevTools pipe: a page is opened from a file, asked about itself, and photographed.

No driver and no websocket library: `--remote-debugging-pipe` speaks JSON with a zero byte after each message on two
file descriptors (https://chromedevtools.github.io/devtools-protocol/).
"""

from __future__ import annotations

import base64
import json
import os
import select
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

SECONDS = 120
"""So long a browser may take for one answer: a busy machine is slow to start one."""
_FLAGS = (
    *("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-dev-shm-usage"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync", "--hide-scrollbars"),
    "--remote-debugging-pipe",
)


class Browser:
    """One page of one browser, and every event that it sent so far."""

    def __init__(self, to: int, back: int) -> None:
        self._to, self._back, self._rest, self._last = to, back, b"", 0
        self._session: str | None = None
        self.events: list[dict[str, Any]] = []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **params: Any) -> Any:
        """The result of a DevTools command; events that come meanwhile are kept."""
        self._last += 1
        message = {"id": self._last, "method": method, "params": params}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._to, json.dumps(message).encode() + b"\0")
        while (answer := self._next()).get("id") != self._last:
            self.events.append(answer)
        assert "error" not in answer, answer
        return answer["result"]

    def open(self, path: Path, width: int = 1200, *, dark: bool = False) -> None:
        """Load a file at `width` pixels and wait until everything in it is loaded."""
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=False)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[scheme])
        self.events.clear()
        assert "errorText" not in self.call("Page.navigate", url=path.resolve().as_uri())
        while not self.said("Page.loadEventFired"):
            self.events.append(self._next())

    def ask(self, expression: str) -> Any:
        """The JSON value of a JavaScript expression in the page."""
        got = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in got, got
        return got["result"].get("value")

    def said(self, method: str) -> list[dict[str, Any]]:
        """What all events of one kind carried since the page was opened."""
        return [event["params"] for event in self.events if event.get("method") == method]

    def photograph(self, out: Path) -> None:
        """The whole page as a PNG."""
        shot = self.call("Page.captureScreenshot", captureBeyondViewport=True)
        out.write_bytes(base64.b64decode(shot["data"]))

    def _next(self) -> dict[str, Any]:
        until = time.monotonic() + SECONDS
        while b"\0" not in self._rest:
            ready, _, _ = select.select([self._back], [], [], max(0.0, until - time.monotonic()))
            data = os.read(self._back, 1 << 16) if ready else b""
            assert data, "chromium went away" if ready else f"chromium said nothing for {SECONDS} s"
            self._rest += data
        message, _, self._rest = self._rest.partition(b"\0")
        decoded: dict[str, Any] = json.loads(message)
        return decoded


@contextmanager
def chromium(profile: Path) -> Iterator[Browser]:
    """A browser with a fresh profile; AssertionError when there is none on this machine."""
    command = shutil.which("chromium") or shutil.which("google-chrome")
    assert command, "chromium is not installed; accepted: a machine where `make system` was run"
    ours, theirs = os.pipe(), os.pipe()
    # The browser reads descriptor 3 and writes descriptor 4, which the shell puts in place.
    line = f'exec "$0" "$@" 3<&{ours[0]} 4>&{theirs[1]}'
    process = subprocess.Popen(
        ["bash", "-c", line, command, *_FLAGS, f"--user-data-dir={profile}"],
        pass_fds=(ours[0], theirs[1]),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    os.close(ours[0])
    os.close(theirs[1])
    try:
        yield Browser(ours[1], theirs[0])
    finally:
        os.close(ours[1])
        os.close(theirs[0])
        process.terminate()
        process.wait(SECONDS)

"""How the bench talks to the processes it times: JSON lines over stdin and stdout.

A worker is a process, so that its load time and its memory are its own, and it answers one request at a time, so that
two workers can take turns on one machine. Times are taken inside the worker; the pipe is not part of them.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from ledger.sources import ROOT

Request = dict[str, Any]
Tick = Callable[[], None]
Handler = Callable[[Request, Tick], Mapping[str, float] | None]


class WorkerFailed(Exception):  # noqa: N818  (a report, which the bench records)
    """The worker could not do it; `str()` is its own reason."""


def pin(threads: int) -> int:
    """Let this process use `threads` CPUs at most, before any library counts them; how many it got."""
    cpus = sorted(os.sched_getaffinity(0))[:threads]
    os.sched_setaffinity(0, cpus)
    return len(cpus)


def answer(load: Callable[[], Handler]) -> None:
    """The worker's side: load, say so, then time what the handler does for each request until stdin ends.

    A handler calls its second argument once for every step, and may return facts that go with the times. What goes
    wrong is answered as `{"error": ...}`; after a failed load the worker ends.
    """
    # Libraries print what they like to stdout; the protocol keeps the real one for itself.
    out = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)

    def tell(line: dict[str, Any]) -> None:
        out.write(json.dumps(line) + "\n")
        out.flush()

    try:
        handler = load()
        tell({"ready": True})
    except Exception as error:
        tell({"error": _reason(error)})
        return
    for line in sys.stdin:
        try:
            seconds, facts = _timed(handler, json.loads(line))
            tell({"seconds": seconds, "facts": {**facts, "peak_rss_mb": peak_rss_mb()}})
        except Exception as error:
            tell({"error": _reason(error)})


def _timed(handler: Handler, request: Request) -> tuple[list[float], Mapping[str, float]]:
    """Seconds from the request to the first step's end, then from step to step; and what the handler says."""
    stamps = [time.perf_counter()]
    facts = handler(request, lambda: stamps.append(time.perf_counter()))
    return [after - before for before, after in pairwise(stamps)], facts or {}


def peak_rss_mb() -> float:
    """The largest resident set of this process so far, in megabytes (10**6 bytes), mapped files included.

    From VmHWM: ru_maxrss keeps, across exec, the peak of the process that started this one.
    """
    status = Path("/proc/self/status").read_text(encoding="ascii")
    kibibytes = next(line.split()[1] for line in status.splitlines() if line.startswith("VmHWM:"))
    return int(kibibytes) * 1024 / 1e6


def _reason(error: Exception) -> str:
    first = next(iter(str(error).splitlines()), "")
    return f"{type(error).__name__}: {first}"[:300]


class Worker:
    """The bench's side of one worker; a context manager that ends the process."""

    def __init__(self, module: str, arguments: Sequence[str]) -> None:
        """Start `python -m module arguments` and wait until it is ready; `load_s` is how long that took.

        Raises WorkerFailed when it does not become ready.
        """
        self._stderr = tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace")  # noqa: SIM115
        started = time.perf_counter()
        self._process = subprocess.Popen(
            [sys.executable, "-m", module, *arguments],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._stderr,
            text=True,
        )
        try:
            self._read()
        except BaseException:
            self.close()
            raise
        self.load_s = time.perf_counter() - started
        self.facts: dict[str, float] = {}

    def ask(self, **request: Any) -> list[float]:
        """Seconds to the first step's end and from step to step; WorkerFailed with the worker's reason.

        What else the worker said of it, `peak_rss_mb` at least, is in `facts` until the next request.
        """
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps(request) + "\n")
            self._process.stdin.flush()
        except OSError:
            raise WorkerFailed(self._last_words()) from None
        told = self._read()
        self.facts = told["facts"]
        seconds: list[float] = told["seconds"]
        return seconds

    def _read(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise WorkerFailed(self._last_words())
        told: dict[str, Any] = json.loads(line)
        if "error" in told:
            raise WorkerFailed(told["error"])
        return told

    def _last_words(self) -> str:
        code = self._process.wait()
        self._stderr.seek(0)
        lines = self._stderr.read().strip().splitlines()
        return f"the process ended with code {code}" + (f": {lines[-1][:300]}" if lines else "")

    def close(self) -> None:
        """End the worker: its stdin closes, and it is killed if it does not follow."""
        for pipe in (self._process.stdin, self._process.stdout):
            # A request that a dead worker never read is still in the pipe, and closing tries to send it.
            with suppress(BrokenPipeError):
                if pipe is not None:
                    pipe.close()
        try:
            self._process.wait(timeout=30)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._stderr.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

"""A worker of the bench that is no model: it ticks by a clock of its own, and fails as its argument says.

python -m tests.validate.bench.fake_worker LOG FAULT
"""

import os
import sys
import time
from pathlib import Path
from unittest.mock import patch

from validate.bench.lines import Handler, Request, Tick, answer

MEMORY = 200_000_000
PACE = {"subject": 0.25, "eager": 1.0, "sdpa": 0.5, "static": 0.625}
"""Seconds of the fake clock from token to token, exact in binary."""


class Clock:
    """Stands still until it is told."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


def load(log: Path, fault: str, clock: Clock) -> Handler:
    """Fault "load" fails here; the others are for the handler. A folder gets a file `log`."""
    log = log / "log" if log.is_dir() else log
    if fault == "load":
        raise RuntimeError("no such\ndevice")

    def handle(request: Request, tick: Tick) -> dict[str, float]:
        if "more" in request:
            return read(request["more"], tick) | {"host_s": 0.125 * request["more"]}
        if "prompts" not in request:
            return read(request["steps"], tick)
        mode = request.get("mode", "subject")
        with log.open("a", encoding="ascii") as file:
            file.write(f"{mode} {'+'.join(str(len(ids)) for ids in request['prompts'])} {request['steps']}\n")
        sys.stdout.write("noise that is no JSON\n")
        if fault == "dies":
            sys.stderr.write("first words\nlast words\n")
            sys.stderr.flush()
            os._exit(7)
        if fault == mode:
            raise ValueError(f"{mode} cannot run")
        if fault == "memory":
            bytearray(MEMORY)
        clock.now += 4 * PACE[mode]
        for _ in range(request["steps"] - (fault == "short" and request["steps"] > 2)):
            tick()
            clock.now += PACE[mode]
        return {}

    def read(steps: int, tick: Tick) -> dict[str, float]:
        for _ in range(steps):
            clock.now += 0.5
            tick()
        return {"bytes": 4e9}

    return handle


if __name__ == "__main__":
    with patch.object(time, "perf_counter", Clock()) as ticking:
        answer(lambda: load(Path(sys.argv[1]), "".join(sys.argv[2:]), ticking))

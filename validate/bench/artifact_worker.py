"""The process that is timed: serve.engine on one artifact, and nothing besides.

    python -m validate.bench.artifact_worker ARTIFACT THREADS

Ready means that the first token of a first request is out, as a lazy load would otherwise hide in it. A request holds
`prompts`, one for each slot that is to be busy, and the number of `steps`; or `more` steps of the prompts that are in
their slots already, so that a long context is filled once and timed in many turns.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

from validate.bench.lines import Handler, Request, Tick, answer, pin

MODULE = "validate.bench.artifact_worker"


def load(folder: Path) -> Handler:
    """Load the artifact, make one token, and give the handler of requests."""
    # Inside: a failure to import is told like any other failure to load.
    from serve.engine import Engine
    from serve.engine import Request as Running

    engine = Engine.load(folder)
    running: list[Running] = []

    def begin(prompts: list[list[int]]) -> None:
        for request in running:
            engine.cancel(request)
        running[:] = [engine.submit(ids, max_new=engine.kv_max, stop_ids=frozenset()) for ids in prompts]
        while not all(request.made for request in running):
            engine.step()

    def handle(request: Request, tick: Tick) -> dict[str, float]:
        steps = request["more"] if "more" in request else request["steps"] - 1
        if "prompts" in request:
            begin(request["prompts"])
            tick()
        started, on_device = time.perf_counter(), engine.device_seconds
        for _ in range(steps):
            if any(one.done for one in running):
                raise ValueError(f"a slot is full after {running[0].count} tokens")
            engine.step()
            tick()
        seconds = time.perf_counter() - started
        return {"host_s": seconds - (engine.device_seconds - on_device)}

    handle({"prompts": [[engine.manifest.tokens.bos]], "steps": 1}, lambda: None)
    return handle


if __name__ == "__main__":
    pin(int(sys.argv[2]))
    answer(lambda: load(Path(sys.argv[1])))

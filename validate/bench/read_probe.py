"""How fast this machine reads memory right now: a worker whose step is one pass over a buffer.

    python -m validate.bench.read_probe THREADS

No decode step can be faster than reading its weights once, so this is the floor that decode is held against. Each
thread takes the maximum of its part as 64-bit integers, which of numpy's reductions came nearest to the memory's limit.
"""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from validate.bench.lines import Handler, Request, Tick, answer, pin

MODULE = "validate.bench.read_probe"
BYTES = 1 << 30
"""Far beyond any cache."""


def load(threads: int) -> Handler:
    """Fill the buffer, and give the handler of requests."""
    # One part of its own for every thread; written once, as untouched pages are all the same page of zeros.
    parts = np.array_split(np.ones(BYTES // 8, np.int64), threads)
    pool = ThreadPoolExecutor(threads)

    def handle(request: Request, tick: Tick) -> dict[str, float]:
        for _ in range(request["steps"]):
            list(pool.map(np.max, parts))
            tick()
        return {"bytes": BYTES}

    handle({"steps": 1}, lambda: None)
    return handle


if __name__ == "__main__":
    granted = pin(int(sys.argv[1]))
    answer(lambda: load(granted))

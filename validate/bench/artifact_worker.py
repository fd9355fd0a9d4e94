"""The process that is timed: serve.engine on one artifact, and nothing besides.

    python -m validate.bench.artifact_worker ARTIFACT THREADS

Ready means that the first token of a first request is out, as a lazy load would otherwise hide in it.
"""

from __future__ import annotations

import sys
from pathlib import Path

from validate.bench.lines import Handler, Request, Tick, answer, pin

MODULE = "validate.bench.artifact_worker"


def load(folder: Path) -> Handler:
    """Load the artifact, make one token, and give the handler of requests."""
    # Inside: a failure to import is told like any other failure to load.
    from serve.engine import Engine

    engine = Engine.load(folder)

    def handle(request: Request, tick: Tick) -> None:
        for _ in engine.generate(request["ids"], max_new=request["max_new"], stop_ids=frozenset()):
            tick()

    handle({"ids": [engine.manifest.tokens.bos], "max_new": 1}, lambda: None)
    return handle


if __name__ == "__main__":
    pin(int(sys.argv[2]))
    answer(lambda: load(Path(sys.argv[1])))

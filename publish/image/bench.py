"""`python -m publish.image.bench LAYOUT`: how big an image is, and how long it takes from start to the first token.

Measured from the start of the container's process, unpacked before, to the first piece of a streamed answer: what an
instance waits for that has pulled the image. Files are in the page cache after the first round; medians.
"""

from __future__ import annotations

import json
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ledger.atomic import write_json
from ledger.errors import run_cli
from ledger.flags import Parser, check_file, whole
from publish.image.layout import read_layout
from publish.image.run import Container, discard

PROMPT = "What is a list?"
MODEL = ("tables", "weights", "graphs")


def measure(layout: Path, storage: Path, rounds: int) -> dict[str, Any]:
    """Sizes in bytes as pulled, times in seconds; GateFailed when the image does not start, answer or stop."""
    image = read_layout(layout)
    ready, first = [], []
    with Container(layout, storage) as one:
        for number in range(rounds):
            if number:
                one.start()
            begun = one.started
            one.wait_ready()
            ready.append(time.monotonic() - begun)
            next(one.stream(PROMPT))
            first.append(time.monotonic() - begun)
            one.stop()
    layers = image.placed()
    return {
        "image": image.digest,
        "layers": [[layer.name, layer.bytes] for layer in layers],
        "bytes": sum(layer.bytes for layer in layers),
        "bytes_without_model": sum(layer.bytes for layer in layers if layer.name not in MODEL),
        "ready_s": _summary(ready),
        "first_token_s": _summary(first),
    }


def _summary(seconds: Sequence[float]) -> dict[str, float]:
    return {
        "median": round(statistics.median(seconds), 3),
        "best": round(min(seconds), 3),
        "worst": round(max(seconds), 3),
    }


def main() -> int:
    """Measure, print, and write to --out."""
    parser = Parser("image-bench", "Sizes of an image, and its time from start to the first token.")
    parser.add_argument("layout", type=Path, help="folder in OCI image layout")
    parser.add_argument("--rounds", type=whole(1), default=5, help="starts (default 5)")
    parser.add_argument("--storage", type=Path, metavar="DIR", help="where buildah unpacks; kept (default: nowhere)")
    parser.add_argument("--out", type=Path, metavar="FILE", help="the figures as JSON")
    options = parser.parse_args()
    if options.out:
        check_file("--out", options.out)
    with tempfile.TemporaryDirectory(prefix="image-bench-") as aside:
        found = measure(options.layout, options.storage or Path(aside), options.rounds)
        if not options.storage:
            discard(Path(aside))
    sys.stdout.write(json.dumps(found, indent=2) + "\n")
    if options.out:
        write_json(options.out, found)
    return 0


if __name__ == "__main__":
    run_cli(main)

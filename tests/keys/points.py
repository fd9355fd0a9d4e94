"""Points of the matrix that look distinct, of which many ask a stage for the same thing.

Drawn from a seed. What matters to a graph takes few values each, so that many points agree in all of it; what does not
matter (names, slim, flags, how it is judged and measured) is drawn anew for each.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

from config.loading import from_mapping
from config.models import Factory
from ledger.errors import BadInput

CHECKPOINT = "tiny"
_FLAGS = ["xla_cpu_prefer_vector_width=256", "xla_backend_optimization_level=1"]


def drawn(seed: int, count: int) -> Iterator[Factory]:
    """`count` configurations of one variant each."""
    chooser = random.Random(seed)
    left = count
    while left:
        try:
            factory = from_mapping(_mapping(chooser), "drawn")
        except BadInput:
            # A combination that nobody can build.
            continue
        left -= 1
        yield factory


def _mapping(chooser: random.Random) -> dict[str, Any]:
    target = chooser.choice(["cpu", "cpu", "cpu", "inf2"])
    flags = chooser.sample(_FLAGS, chooser.randrange(3)) if target == "cpu" else chooser.choice([[], ["-O1"]])
    name = f"v{chooser.randrange(10**6)}"
    variant = {
        "name": name,
        "kv_max": chooser.choice([48, 48, 49, 96]),
        "kv_bucket": chooser.choice([8, 8, 16]),
        "tp": chooser.choice([1, 1, 2]),
        "batch": chooser.choice([1, 1, 2]),
        "dtype": chooser.choice(["float32", "bfloat16"]),
        "slim": chooser.choice([True, False]),
        "kv": chooser.choice(["device", "device", "host"]),
        "target": target,
        "flags": flags,
    }
    return {
        "name": f"run-{chooser.randrange(10**6)}",
        "store": f"store-{chooser.randrange(10**6)}",
        "checkpoints": {
            CHECKPOINT: {
                "source": {"kind": "tiny", "steps": chooser.randrange(1, 900)},
                "geometry": "tiny",
                "variants": [variant],
                "release": {"name": name, "latest": name},
            }
        },
        "parity": {"prompts": chooser.randrange(1, 99), "max_new": 8, "seed": chooser.randrange(99)},
        "bench": {"rounds": chooser.randrange(1, 9), "new_tokens": chooser.randrange(1, 99)},
    }

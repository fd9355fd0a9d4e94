"""Device memory of one core, in the categories of the runtime's own report.

Weights, state and I/O are counted from the signatures. Scratch and code are estimates from two published accounts, as
only the compiler knows them:
- E2B, TP=2, chunks of 512 over 131,072 rows (barrhawk): 15.76 of 16 GB, of which tensors 8.85, scratch 5.19, code 1.65;
- 26B-A4B, TP=8, 256/64 (xbill9): 8.57 GB per core, of which weights 8.05 and the runtime's reserve 0.1.
The second gives code per layer and graph; the first, less that, what grows with tokens of a chunk times rows. That does
not shrink with the heads of a rank: E4B at TP=4 over as many rows (4.33 GB of weights, a flat cache of 3.76) comes to
15.0 GB so, and 15.16 were published. These are other graphs than ours: near the limit, an estimate settles nothing.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from config.builders import Builder, inlines_weights, one_graph
from recipes.fit.instances import CORE_HBM, RESERVED
from recipes.fit.signatures import logits_bytes, role_bytes
from serve.manifest import GraphName, Signature

Pair = Mapping[GraphName, Signature]

_AREA_OF_THE_ACCOUNT = 512 * 131_072
SCRATCH_PER_AREA = 5.19e9 / _AREA_OF_THE_ACCOUNT
CODE_PER_LAYER = (8.57e9 - 8.05e9 - RESERVED) / (2 * 30)
CODE_PER_AREA = (1.65e9 - 2 * 35 * CODE_PER_LAYER) / _AREA_OF_THE_ACCOUNT


@dataclass(frozen=True)
class Hbm:
    """Bytes on one core; `weights` are those of one set, of which there are `copies`."""

    weights: int
    state: int
    io: int
    scratch: int
    code: int
    reserved: int = RESERVED
    copies: int = 1

    @property
    def total(self) -> int:
        """All of it."""
        return self.copies * self.weights + self.state + self.io + self.scratch + self.code + self.reserved

    @property
    def fits(self) -> bool:
        """Whether a core holds it."""
        return self.total <= CORE_HBM


def hbm_of(pair: Pair, layers: int, kv: str, builder: Builder) -> Hbm:
    """The memory of a prefill and a decode graph, or of the one that serves as both.

    Weights that a builder puts into the graphs are there once for each. A cache that lives on the host is an input and
    an output of each call, so both are on the device at once.
    """
    if one_graph(builder, kv):
        pair = {"prefill": pair["prefill"]}
    state = max(role_bytes(signature, "state") for signature in pair.values())
    widest = max(map(area, pair.values()))
    return Hbm(
        weights=max(role_bytes(signature, "weight") for signature in pair.values()),
        state=state * (2 if kv == "host" else 1),
        io=sum(role_bytes(signature, "input") + logits_bytes(signature) for signature in pair.values()),
        scratch=round(SCRATCH_PER_AREA * widest),
        code=round(CODE_PER_LAYER * layers * len(pair) + CODE_PER_AREA * widest),
        copies=len(pair) if inlines_weights(builder) else 1,
    )


def area(signature: Signature) -> int:
    """Elements of the full layers' mask [B, 1, T, rows]: what attention works on in one call."""
    return math.prod(signature.named("input")["full_mask"].shape)

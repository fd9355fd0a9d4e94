"""The expected time of a decode step: one formula and four constants for every model, degree, context and batch.

    ms = weights / STREAM + attended / ATTENTION + through the host / HOST + layers * REDUCE (when tp > 1)

Fitted to what others measured (`recipes.fit.published`; prior art's laws in brackets). Departs from those laws in that
the cost per stream (L2) has no constant of its own: the published batches pass 128 rows per stream through the host,
and at the rate of L3 that is what they cost. The fit minimises the sum of squared logarithms of expected over published
tok/s, over the figures whose use is `fitted`. It is for bfloat16, and beyond 2,048 rows it rests on one figure.
"""

from __future__ import annotations

from dataclasses import dataclass

from config.geometry import Geometry
from recipes.fit.signatures import role_bytes, size
from serve.manifest import Signature

STREAM = 222e9
"""Weight bytes per second and core (L1, which says about 200 with everything else in it)."""
HOST = 4.83e9
"""Bytes of cache per second that go in and out through the host (L3: 3.3 to 3.8, taken from one pair of figures)."""
REDUCE = 0.024
"""Milliseconds per layer for the sums over ranks (L4: what TP=2 does not shrink, beside the head)."""
ATTENTION = 61.7e9
"""Bytes of cache per second that attention reads (L5: from 2,048 to 131,072 rows a step grows from 12 to 42 ms)."""


@dataclass(frozen=True)
class Step:
    """What one decode step does: bytes of weights and of cache rows attended to on a core, bytes of cache that go
    through the host for all ranks, layers whose sums are taken over ranks, and sequences.
    """

    weights: float
    attended: float
    host: float
    reduced_layers: int
    streams: int

    @property
    def expected_ms(self) -> float:
        """Milliseconds of the step."""
        moved = self.weights / STREAM + self.attended / ATTENTION + self.host / HOST
        return 1e3 * moved + REDUCE * self.reduced_layers

    @property
    def expected_tok_s(self) -> float:
        """Tokens per second of all sequences."""
        return 1e3 * self.streams / self.expected_ms


def step_of(signature: Signature, geometry: Geometry, tp: int, kv: str) -> Step:
    """The step of a decode graph's signature; a shared layer reads its owner's rows once more."""
    readers = dict.fromkeys(geometry.owner_layers, 0)
    for layer in range(geometry.num_hidden_layers):
        readers[geometry.donor(layer)] += 1
    states = signature.named("state").items()
    through = 2 * tp * role_bytes(signature, "state") if kv == "host" else 0
    return Step(
        weights=role_bytes(signature, "weight"),
        attended=sum(readers[int(name.split(".")[1])] * size(one) for name, one in states),
        host=through,
        reduced_layers=geometry.num_hidden_layers if tp > 1 else 0,
        streams=signature.batch,
    )

"""Published decode speeds on inf2, and the law against each of them.

Figures are those of others (xbill9's model pages and reports, aws-neuron-samples PR #128, barrhawk), none reproduced
here. Their builds differ from this project's graphs: xbill9's caches are flat, and every rank holds a whole head. So
what they moved is counted from the geometry and from the bytes per core that are stated for them, not from a graph.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from config.geometry import load_geometry
from recipes.fit.law import Step

ERROR = 0.15
"""How far the law may be from either end of a published figure."""
_BF16 = 2


@dataclass(frozen=True)
class Figure:
    """One published speed: `low` to `high` tok/s of all streams, with `weights` bytes on a core.

    `window` is set where sliding layers read no more rows than that. `use` says what the law's constants know of it:
    fitted, "attention" for the two that gave ATTENTION by their difference, and nothing of what is held out.
    """

    name: str
    source: str
    geometry: str
    rows: int
    weights: float
    low: float
    high: float
    tp: int = 1
    batch: int = 1
    kv: str = "device"
    window: int | None = None
    use: Literal["fitted", "attention", "held out"] = "fitted"

    def step(self) -> Step:
        """What the build does in a step."""
        geometry = load_geometry(self.geometry)
        attended = owned = 0
        for layer in range(geometry.num_hidden_layers):
            heads = max(1, geometry.kv_heads_of(geometry.donor(layer)) // self.tp)
            rows = self.rows if geometry.is_full(layer) else min(self.rows, self.window or self.rows)
            size = 2 * _BF16 * heads * geometry.head_dim_of(layer) * rows * self.batch
            attended += size
            owned += size if layer in geometry.owner_layers else 0
        return Step(
            weights=self.weights,
            attended=attended,
            host=2 * self.tp * owned if self.kv == "host" else 0,
            reduced_layers=geometry.num_hidden_layers if self.tp > 1 else 0,
            streams=self.batch,
        )


_E2B, _E4B, _12B, _26B = "gemma-4-E2B-it", "gemma-4-E4B-it", "gemma-4-12B-it", "gemma-4-26B-A4B-it"
# Device bytes per core. TP=2 with a whole head on each rank: 2.34 + 0.40, 4.73 + 0.67, 11.92 + 1.01 GB.
_E2B_1, _E2B_2, _E4B_2, _12B_2 = 4.56e9, 2.74e9, 5.40e9, 12.93e9
# As published: with the whole attention of layers whose KV heads do not divide.
_E4B_4, _26B_8 = 4.33e9, 8.05e9

# The state of the TP=2 builds of E4B and 12B is taken to be on the device, as for E2B: their pages do not say.
PUBLISHED = (
    Figure("E2B one core, 128 rows", "xbill9, 26-27 Jul; L3", _E2B, 128, _E2B_1, 47.3, 47.3, kv="host"),
    Figure("E2B one core, 512 rows", "xbill9, tag 512-128", _E2B, 512, _E2B_1, 44, 44, kv="host"),
    Figure("E2B one core, 2048 rows", "xbill9, tag 2048-512; L3", _E2B, 2048, _E2B_1, 25, 25, kv="host"),
    Figure("E2B one core, 2048 rows, aliased", "xbill9, no tag; L3, L4", _E2B, 2048, _E2B_1, 47, 47),
    Figure("E2B tp 2, 2048 rows", "xbill9, tag tp2-2048; L4", _E2B, 2048, _E2B_2, 72.7, 72.7, tp=2),
    Figure("E2B batch 4, 128 rows", "xbill9, lock-step; L2", _E2B, 128, _E2B_1, 157.1, 157.1, batch=4, kv="host"),
    Figure("E2B batch 8, 128 rows", "xbill9, lock-step; L2", _E2B, 128, _E2B_1, 274.9, 274.9, batch=8, kv="host"),
    Figure("E2B batch 16, 128 rows", "xbill9, lock-step; L2", _E2B, 128, _E2B_1, 442.7, 442.7, batch=16, kv="host"),
    Figure("E4B tp 2, 512 rows", "xbill9, slim-devprefill; L1", _E4B, 512, _E4B_2, 36, 39, tp=2),
    Figure("12B tp 2, 256 rows", "xbill9, tp2-devprefill-256; L1", _12B, 256, _12B_2, 15, 15, tp=2),
    Figure("E2B tp 2, 2048 rows", "barrhawk; L5", _E2B, 2048, _E2B_2, 83.3, 83.3, 2, window=512, use="attention"),
    Figure("E2B tp 2, 131072 rows", "barrhawk; L5", _E2B, 131_072, _E2B_2, 23.8, 23.8, 2, window=512, use="attention"),
    Figure("E4B tp 4, 131072 rows", "barrhawk", _E4B, 131_072, _E4B_4, 21, 21, 4, window=512, use="held out"),
    Figure("12B tp 2", "barrhawk, bf16; rows not stated", _12B, 256, _12B_2, 15.29, 15.29, 2, use="held out"),
    Figure("26B-A4B tp 8, 256 rows", "barrhawk; L1", _26B, 256, _26B_8, 25, 25, 8, use="held out"),
)
LEFT_OUT = (
    "E2B slim (24 and 36.4 tok/s) and tp2-slim (61 and 55 to 59, where the same graph without slim has 72.7): "
    "sources conflict",
    "E4B tp_alias (33 and up to 60 tok/s in one report): unexplained",
    "26B-A4B with a ring (9.4, 13.8 and 11.4 tok/s at 32K, 49K and 72K): rises with context, unexplained",
    "int8 builds: weights are expanded in HBM, so the stream law does not hold (L1, L7)",
)


@dataclass(frozen=True)
class Check:
    """A figure beside what the law expects."""

    figure: Figure
    expected: float

    @property
    def error(self) -> float:
        """Relative distance to the end of the figure that is farther away, with its sign."""
        ends = (self.figure.low, self.figure.high)
        return max((self.expected / end - 1 for end in ends), key=abs)

    @property
    def holds(self) -> bool:
        """Whether the law is within its stated error."""
        return abs(self.error) <= ERROR


def check_published() -> list[Check]:
    """The law against every figure, fitted ones first."""
    return [Check(figure, figure.step().expected_tok_s) for figure in PUBLISHED]

"""The figures of the full-size bench: how each is made from what was measured, and what is accepted."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

Sense = Literal[">=", "<="]


@dataclass(frozen=True)
class Accepted:
    """The bound that a figure is held to, and what it is in words."""

    sense: Sense
    bound: float
    meaning: str

    def stands(self, value: float) -> bool:
        """Whether `value` is within the bound."""
        return value >= self.bound if self.sense == ">=" else value <= self.bound


ACCEPTED = {
    "decode_vs_transformers": Accepted(">=", 1.8, "decode at 512 context, times transformers' best mode"),
    "decode_vs_floor": Accepted(">=", 0.8, "decode at 512 context, share of a read probe's speed beside it"),
    "decode_8192_vs_512": Accepted("<=", 1.12, "time of a step at 8,192 context over that at 512"),
    "decode_32768_vs_512": Accepted("<=", 1.4, "time of a step at 32,768 context over that at 512"),
    "batch8_vs_batch1": Accepted(">=", 3.5, "tokens a second of eight slots together over those of one"),
    "batch8_vs_transformers": Accepted(">=", 1.6, "the same over transformers' best mode with eight prompts"),
    "prefill_vs_transformers": Accepted(">=", 1.7, "prefill of 2,048 tokens, times transformers' best mode"),
    "host_share_of_step": Accepted("<=", 0.05, "gather, masks, dispatch and sampling in a step at 512 context"),
    "rss_above_weights_gb": Accepted("<=", 1.0, "peak RSS of a slim load beyond the weight file, 10**9 bytes"),
    "load_s": Accepted("<=", 60.0, "process start to first token, files in the page cache, digests checked"),
    "added_bytes_ratio": Accepted("<=", 0.01, "what the largest further variant adds, share of the first one"),
}

Seconds = Mapping[str, Any]


def figures(steps: Seconds, beside: Seconds, load: Seconds, added_bytes_ratio: float) -> dict[str, float]:
    """The figures of what the phases measured (see phases.py), by key."""
    ours, theirs = beside["ours"], beside["transformers"]
    near = steps["512-128_s"]
    return {
        "decode_vs_transformers": theirs["answer"] / ours["answer"],
        "decode_vs_floor": steps["probe_s"] / near,
        "decode_8192_vs_512": steps["8192-512_s"] / near,
        "decode_32768_vs_512": steps["32768-512_s"] / near,
        "batch8_vs_batch1": 8 * near / steps["batch8_s"],
        "batch8_vs_transformers": theirs["slots"] / ours["slots"],
        "prefill_vs_transformers": theirs["prefill"] / ours["prefill"],
        "host_share_of_step": (steps["host_s"] + steps["dispatch_s"]) / near,
        "rss_above_weights_gb": load["above_weights"] / 1e9,
        "load_s": load["load_s"],
        "added_bytes_ratio": added_bytes_ratio,
    }


def contexts(steps: Seconds, beside: Seconds) -> list[dict[str, float | None]]:
    """Decode speed by tokens of context, in tokens a second, where transformers was asked beside its own."""
    ours, theirs = beside["ours"], beside["transformers"]
    rows: list[tuple[int, float, float | None]] = [
        (512, steps["512-128_s"], theirs["answer"]),
        (2048, ours["at_2048"], theirs["at_2048"]),
        (8192, steps["8192-512_s"], None),
        (32768, steps["32768-512_s"], None),
    ]
    return [
        {
            "tokens": tokens,
            "decode_tok_s": round(1 / mine, 2),
            "transformers_decode_tok_s": None if other is None else round(1 / other, 2),
        }
        for tokens, mine, other in rows
    ]


def summary(found: Mapping[str, float], measured: Mapping[str, Any]) -> dict[str, Any]:
    """What results/bench-full/summary.json holds: every figure, what is accepted, and the measurements behind."""
    rounded = {key: round(found[key], 4) for key in ACCEPTED}
    thresholds = {key: {"sense": one.sense, "accepted": one.bound} for key, one in ACCEPTED.items()}
    return {**rounded, "thresholds": thresholds, **measured}


def table(made: Mapping[str, Any]) -> str:
    """A line for each figure: its value, what is accepted, whether it stands."""
    width = max(map(len, ACCEPTED))
    lines = []
    for key, one in ACCEPTED.items():
        mark = "stands" if one.stands(made[key]) else "MISSES"
        lines.append(f"{key:<{width}}  {made[key]:>8.3f}  {one.sense} {one.bound:<5g}  {mark}  {one.meaning}")
    return "\n".join(lines)

"""Figures from times: what a bench reports of one participant."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median
from typing import Any


def percentile(values: Sequence[float], share: float) -> float:
    """The value under which `share` (0 to 1) of `values` lie, linear between neighbours (Hyndman and Fan, type 7)."""
    ordered = sorted(values)
    place = share * (len(ordered) - 1)
    low = int(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (place - low)


def figures(answers: Sequence[Sequence[float]], prefills: Sequence[float], prefill_tokens: int) -> dict[str, Any]:
    """One participant's figures.

    `answers`: per round, seconds to the first token and then from token to token, at least two tokens; `prefills`:
    per round, seconds to the first token of a prompt of `prefill_tokens`. Everything is pooled over the rounds, and
    medians stand for it, as one pause of the machine would move a mean.
    """
    steps = [step for answer in answers for step in answer[1:]]
    return {
        "ttft_ms": round(1e3 * median(answer[0] for answer in answers), 3),
        "prefill_tok_s": round(prefill_tokens / median(prefills), 2),
        "decode_tok_s": round(1 / median(steps), 2),
        "step_ms": {
            "median": round(1e3 * median(steps), 4),
            "p5": round(1e3 * percentile(steps, 0.05), 4),
            "p95": round(1e3 * percentile(steps, 0.95), 4),
        },
        "steps": len(steps),
    }

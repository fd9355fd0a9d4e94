"""From logits to a token: greedy, or seeded sampling with temperature, top-k, top-p and min-p.

The filters follow transformers' logits processors and their order (temperature, top_k, top_p, min_p), so that the
same settings mean the same distribution; the random draw itself is numpy's PCG64.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Sampling:
    """How to choose: `temperature` 0 is greedy; `top_k` 0, `top_p` 1 and `min_p` 0 filter nothing."""

    temperature: float = 0.0
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0
    seed: int | None = None


GREEDY = Sampling()


class Sampler:
    """Chooses token ids for one request."""

    def __init__(self, sampling: Sampling, suppress: Iterable[int]) -> None:
        """`suppress` ids are never chosen, greedy or not (generation_config's suppress_tokens)."""
        self._sampling = sampling
        self._suppress = np.fromiter(suppress, np.int64)
        self._random = np.random.default_rng(sampling.seed)

    def allowed(self, logits: Floats) -> Floats:
        """`logits` [V] with suppressed ids at -inf; a copy where there are any, so the input stays as it is."""
        if not len(self._suppress):
            return logits
        logits = logits.copy()
        logits[self._suppress] = -np.inf
        return logits

    def choose(self, logits: Floats) -> int:
        """An id from `logits` [V], which went through `allowed`."""
        if self._sampling.temperature == 0.0:
            return int(logits.argmax())
        probabilities = self.probabilities(logits)
        return int(self._random.choice(len(probabilities), p=probabilities))

    def probabilities(self, logits: Floats) -> npt.NDArray[np.float64]:
        """What a draw from `logits` [V] at a temperature above 0 chooses by: filtered, scaled, of sum 1."""
        settings = self._sampling
        scores = logits.astype(np.float64) / settings.temperature
        if 0 < settings.top_k < len(scores):
            threshold = np.partition(scores, -settings.top_k)[-settings.top_k]
            scores[scores < threshold] = -np.inf
        if settings.top_p < 1.0:
            order = np.argsort(scores, kind="stable")
            mass_up_to = np.cumsum(softmax(scores[order]))
            mass_up_to[-1] = np.inf  # the likeliest token always stays
            scores[order[mass_up_to <= 1.0 - settings.top_p]] = -np.inf
        probabilities = softmax(scores)
        if settings.min_p > 0.0:
            probabilities[probabilities < settings.min_p * probabilities.max()] = 0.0
            probabilities /= probabilities.sum()
        return probabilities


def softmax(scores: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Probabilities of `scores` [V]; -inf becomes 0."""
    weights = np.exp(scores - scores.max())
    total: npt.NDArray[np.float64] = weights / weights.sum()
    return total


def log_softmax(logits: Floats) -> Floats:
    """Natural log-probabilities of `logits` [V]."""
    shifted = logits - logits.max()
    normalised: Floats = shifted - np.log(np.exp(shifted).sum())
    return normalised


def top(log_probabilities: Floats, count: int) -> tuple[tuple[int, float], ...]:
    """The `count` likeliest (id, log-probability) pairs, best first, lower id first among equals."""
    count = min(count, len(log_probabilities))
    if count == 0:
        return ()
    # A partition alone picks any of the ids that share the last place.
    least = np.partition(log_probabilities, -count)[-count]
    better, equal = np.flatnonzero(log_probabilities > least), np.flatnonzero(log_probabilities == least)
    best = np.concatenate([better, equal[: count - len(better)]])
    best = best[np.lexsort((best, -log_probabilities[best]))]
    return tuple((int(i), float(log_probabilities[i])) for i in best)

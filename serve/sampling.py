"""From logits to a token: greedy, or seeded sampling, with penalties, biases and filters.

A step's logits pass, in this order:

1. suppressed ids (generation_config's suppress_tokens) become -inf, for good: no bias brings them back;
2. `logit_bias` is added, as in OpenAI's API (about -100 to 100; an id far below all others is never chosen);
3. `repetition_penalty` divides positive and multiplies negative logits of ids in prompt or answer (CTRL, arXiv
   1909.05858, as in transformers and vLLM), then `frequency_penalty` times its count and `presence_penalty` are
   subtracted for ids in the answer alone (OpenAI, vLLM);
4. temperature, top_k, top_p and min_p filter as transformers' logits processors do, in their order; the draw itself is
   numpy's PCG64.

Log-probabilities that a request asks for are those after 3: what the request's own settings make of the model, with
temperature and filters left out, as these belong to the draw. Without biases and penalties they are the model's.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Sampling:
    """How to choose: temperature 0 is greedy; top_k 0, top_p 1, min_p 0 and penalties 0 (repetition 1) change nothing.

    `seed` is an int of any sign, or several, so that the answers to one request differ; None draws a fresh one.
    """

    temperature: float = 0.0
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0
    seed: int | tuple[int, ...] | None = None
    repetition_penalty: float = 1.0
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    logit_bias: tuple[tuple[int, float], ...] = ()

    @property
    def penalises(self) -> bool:
        """Whether earlier tokens matter to the choice."""
        return bool(self.presence_penalty or self.frequency_penalty or self.repetition_penalty != 1.0)


GREEDY = Sampling()


class Sampler:
    """Chooses token ids for one request."""

    def __init__(self, sampling: Sampling, suppress: Iterable[int], prompt: Iterable[int] = ()) -> None:
        """`suppress` ids are never chosen, greedy or not; `prompt` counts for the repetition penalty."""
        self._sampling = sampling
        self._suppress = np.fromiter(suppress, np.int64)
        self._random = np.random.default_rng(_entropy(sampling.seed))
        self._biased = np.array([id_ for id_, _ in sampling.logit_bias], np.int64)
        self._bias = np.array([bias for _, bias in sampling.logit_bias], np.float32)
        # Ids of prompt and answer, and how often each is in the answer; only penalties look at them.
        self._counts = dict.fromkeys(prompt, 0) if sampling.penalises else {}

    def allowed(self, logits: Floats) -> Floats:
        """`logits` [V] with suppressed ids at -inf; a copy where there are any, so the input stays as it is."""
        if not len(self._suppress):
            return logits
        logits = logits.copy()
        logits[self._suppress] = -np.inf
        return logits

    def shaped(self, logits: Floats) -> Floats:
        """`logits` [V], which went through `allowed`, with biases and penalties; a copy where there are any."""
        if len(self._biased):
            logits = logits.copy()
            np.add.at(logits, self._biased, self._bias)
        if not self._counts:
            return logits
        logits, settings = logits.copy(), self._sampling
        ids = np.fromiter(self._counts.keys(), np.int64, len(self._counts))
        counts = np.fromiter(self._counts.values(), np.float32, len(self._counts))
        scores = logits[ids]
        rate = np.float32(settings.repetition_penalty)
        scores = np.where(scores > 0, scores / rate, scores * rate)
        scores -= np.float32(settings.frequency_penalty) * counts
        logits[ids] = scores - np.float32(settings.presence_penalty) * (counts > 0)
        return logits

    def choose(self, logits: Floats) -> int:
        """An id from `logits` [V], which went through `allowed` and `shaped`; penalties count it from now on."""
        chosen = self._draw(logits)
        if self._sampling.penalises:
            self._counts[chosen] = self._counts.get(chosen, 0) + 1
        return chosen

    def probabilities(self, logits: Floats) -> npt.NDArray[np.float64]:
        """What a draw from `logits` [V] at a temperature above 0 chooses by: filtered, scaled, of sum 1."""
        ids, kept = self._kept(logits)
        probabilities = np.zeros(len(logits))
        probabilities[ids] = kept
        return probabilities

    def _draw(self, logits: Floats) -> int:
        if self._sampling.temperature == 0.0:
            return int(logits.argmax())
        ids, probabilities = self._kept(logits)
        mass = np.cumsum(probabilities)
        place = np.searchsorted(mass, self._random.random() * mass[-1], side="right")
        return int(ids[min(int(place), len(ids) - 1)])

    def _kept(self, logits: Floats) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float64]]:
        """The ids that the filters leave, ascending, and their probabilities; top_k first, so the rest is short."""
        settings = self._sampling
        ids = np.flatnonzero(logits >= _threshold(logits, settings.top_k))
        scores = logits[ids].astype(np.float64)
        # The best is at 0 before it is scaled: the lowest temperature then leaves numbers that exist.
        with np.errstate(over="ignore"):
            scores = (scores - scores.max()) / settings.temperature
        if settings.top_p < 1.0:
            order = np.argsort(scores, kind="stable")
            mass_up_to = np.cumsum(softmax(scores[order]))
            mass_up_to[-1] = np.inf  # the likeliest token always stays
            scores[order[mass_up_to <= 1.0 - settings.top_p]] = -np.inf
        probabilities = softmax(scores)
        if settings.min_p > 0.0:
            probabilities[probabilities < settings.min_p * probabilities.max()] = 0.0
            probabilities /= probabilities.sum()
        return ids, probabilities


def _threshold(logits: Floats, top_k: int) -> np.float32:
    """The logit that an id must reach to be among the `top_k` likeliest; 0 leaves all."""
    if 0 < top_k < len(logits):
        least: np.float32 = np.partition(logits, -top_k)[-top_k]
        return least
    return np.float32(-np.inf)


def _entropy(seed: int | tuple[int, ...] | None) -> list[int] | None:
    """`seed` as numpy wants it: numbers without a sign."""
    if seed is None:
        return None
    numbers = (seed,) if isinstance(seed, int) else seed
    return [number % 2**64 for number in numbers]


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

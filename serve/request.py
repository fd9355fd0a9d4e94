"""A prompt on its way through a slot, and what comes out of it: tokens, and scores of the prompt where asked for."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
import numpy.typing as npt

from serve.sampling import Sampler, log_softmax, top

Floats = npt.NDArray[np.float32]
Finish = Literal["stop", "length"]
Ranking = tuple[tuple[int, float], ...]


@dataclass(frozen=True, slots=True)
class Token:
    """One generated token; `logprob` and `top` are there when log-probabilities were asked for."""

    id: int
    logprob: float | None = None
    top: Ranking = ()
    finish: Finish | None = None


@dataclass(frozen=True, slots=True)
class Score:
    """What the model says after one prompt token: its own choice, and the log-probability of the next token."""

    argmax: int
    logprob: float | None
    top: Ranking


@dataclass(eq=False)
class Request:
    """A prompt on its way through a slot; `made` and `scores` collect what it gives for whoever asked.

    A scored prompt takes no prefill: it goes through the decode graph token by token, which gives logits at each.
    """

    ids: list[int]
    budget: int
    sampler: Sampler
    stops: frozenset[int]
    top_logprobs: int | None
    top_scores: int | None = None  # None: the prompt is not scored
    made: deque[Token] = field(default_factory=deque)
    scores: deque[Score] = field(default_factory=deque)
    count: int = 0
    filled: int = 0  # prompt tokens whose rows are written
    last: int = -1  # the token that the next decode step takes
    done: bool = False

    @property
    def filling(self) -> bool:
        """Whether it waits for chunks of prefill."""
        return self.count == 0 and self.top_scores is None

    @property
    def next(self) -> tuple[int, int]:
        """What the next decode step takes and the position where it writes."""
        if self.filled < len(self.ids):
            return self.ids[self.filled], self.filled
        return self.last, self.position

    @property
    def position(self) -> int:
        """Where the next decode step of an answer writes."""
        return len(self.ids) + self.count - 1

    def advance(self, logits: Floats) -> None:
        """Use the logits [V] of a decode step: they score a token of the prompt, continue it, or both."""
        if self.filled < len(self.ids):
            self.filled += 1
            self._score(logits)
            if self.filled < len(self.ids):
                return
            if self.budget == 0:
                self.done = True
                return
        self.take(logits)

    def take(self, logits: Floats) -> None:
        """Choose a token from `logits` [V] and note whether it is the last one."""
        shaped = self.sampler.shaped(self.sampler.allowed(logits))
        self.last = self.sampler.choose(shaped)
        self.count += 1
        finish: Finish | None = None
        if self.last in self.stops:
            finish = "stop"
        elif self.count == self.budget:
            finish = "length"
        # A request may be cancelled in the middle of a step: its token is no reason to go on.
        self.done = self.done or finish is not None
        self.made.append(_token(self.last, shaped, self.top_logprobs, finish))

    def _score(self, logits: Floats) -> None:
        following = self.ids[self.filled] if self.filled < len(self.ids) else None
        self.scores.append(score(self.sampler.allowed(logits), following, self.top_scores or 0))


def score(logits: Floats, following: int | None, top_logprobs: int) -> Score:
    """What allowed `logits` [V] say: their choice, and the log-probability of `following`."""
    log_probabilities = log_softmax(logits)
    logprob = None if following is None else float(log_probabilities[following])
    return Score(int(logits.argmax()), logprob, top(log_probabilities, top_logprobs))


def _token(chosen: int, logits: Floats, top_logprobs: int | None, finish: Finish | None) -> Token:
    if top_logprobs is None:
        return Token(chosen, finish=finish)
    log_probabilities = log_softmax(logits)
    return Token(chosen, float(log_probabilities[chosen]), top(log_probabilities, top_logprobs), finish)

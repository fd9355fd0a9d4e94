"""Token ids in, token ids out: continuous batching over the slots of an artifact.

The engine knows no text. A request joins at any step and leaves at any step: it waits for a free slot, is prefilled
chunk by chunk, then takes part in every decode step until it stops. A chunk of prefill and a decode step of all
others take turns, so nobody waits longer than one chunk. What a request may read follows from its own positions
alone, so a slot needs no reset and its neighbours do not matter.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Generator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import numpy as np
import numpy.typing as npt

from serve.errors import ServeError
from serve.fit import check_fit
from serve.manifest import Manifest, verify
from serve.runtime import Runtime, load
from serve.sampling import GREEDY, Sampler, Sampling, log_softmax, top
from serve.steps import Steps
from serve.tables import HostTables

Floats = npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Token:
    """One generated token; `logprob` and `top` are there when log-probabilities were asked for."""

    id: int
    logprob: float | None = None
    top: tuple[tuple[int, float], ...] = ()
    finish: Literal["stop", "length"] | None = None


@dataclass(frozen=True, slots=True)
class Score:
    """What the model says after one prompt token: its own choice, and the log-probability of the next token."""

    argmax: int
    logprob: float | None
    top: tuple[tuple[int, float], ...]


@dataclass(eq=False)
class Request:
    """A prompt on its way through a slot; `made` collects its tokens for whoever asked."""

    ids: list[int]
    budget: int
    sampler: Sampler
    stops: frozenset[int]
    top_logprobs: int | None
    made: deque[Token] = field(default_factory=deque)
    count: int = 0
    filled: int = 0  # prompt tokens whose rows are written
    last: int = -1  # the token that the next decode step takes
    done: bool = False

    @property
    def position(self) -> int:
        """Where the next decode step writes."""
        return len(self.ids) + self.count - 1

    def take(self, logits: Floats) -> None:
        """Choose a token from `logits` [V] and note whether it is the last one."""
        allowed = self.sampler.allowed(logits)
        self.last = self.sampler.choose(allowed)
        self.count += 1
        finish: Literal["stop", "length"] | None = None
        if self.last in self.stops:
            finish = "stop"
        elif self.count == self.budget:
            finish = "length"
        # A request may be cancelled in the middle of a step: its token is no reason to go on.
        self.done = self.done or finish is not None
        self.made.append(_token(self.last, allowed, self.top_logprobs, finish))


class Engine:
    """One artifact, loaded and ready. Not thread-safe: one thread owns it."""

    def __init__(self, manifest: Manifest, runtime: Runtime, tables: HostTables) -> None:
        """Put together what `load` reads; tests bring their own runtime."""
        self.manifest = manifest
        self.kv_max = manifest.variant.kv_max
        self.slots = manifest.variant.batch
        self._steps = Steps(manifest, runtime, tables)
        self._waiting: deque[Request] = deque()
        self._running: dict[int, Request] = {}
        # First freed, first used, so that a lone client walks through all slots.
        self._free = deque(range(self.slots))

    @classmethod
    def load(cls, folder: Path, *, check_digests: bool = True) -> Engine:
        """Load the artifact in `folder`; ServeError when it is damaged or this host cannot run it."""
        manifest = Manifest.read(folder)
        check_fit(folder, manifest)
        if check_digests:
            verify(folder, manifest.files())
        tables = HostTables(folder / manifest.tables.path, manifest.model, slim=manifest.variant.slim)
        return cls(manifest, load(folder, manifest), tables)

    def submit(
        self,
        ids: Sequence[int],
        *,
        max_new: int,
        sampling: Sampling = GREEDY,
        stop_ids: frozenset[int] | None = None,
        top_logprobs: int | None = None,
    ) -> Request:
        """Queue a request to continue `ids` by up to `max_new` tokens, or until both fill `kv_max` positions.

        A token of `stop_ids` (the checkpoint's own when None) ends the answer and is its last token, with finish
        "stop". ServeError when the prompt is empty, does not fit, or holds an id outside the vocabulary, or when
        `max_new` is less than 1.
        """
        self._check(ids, self.kv_max - 1)
        if max_new < 1:
            raise ServeError(f"max_new is {max_new}; 1 or more is accepted")
        stops = frozenset(self.manifest.tokens.stop) if stop_ids is None else stop_ids
        sampler = Sampler(sampling, self.manifest.tokens.suppress)
        request = Request(list(ids), min(max_new, self.kv_max - len(ids)), sampler, stops, top_logprobs)
        self._waiting.append(request)
        return request

    def step(self) -> bool:
        """Admit who can be, run one chunk of the oldest unfinished prefill and one decode step of the others.

        False when there was nothing to do. Requests that are done leave their slots first.
        """
        self._release()
        self._admit()
        # A request whose prompt is done before this step decodes in it; one that finishes its prefill now has a token.
        decoding = {slot: request for slot, request in self._running.items() if request.count}
        filling = next((slot for slot, request in self._running.items() if not request.count), None)
        if filling is not None:
            self._prefill(filling, self._running[filling])
        if decoding:
            logits = self._steps.decode({slot: (r.last, r.position) for slot, r in decoding.items()})
            for slot, request in decoding.items():
                request.take(logits[slot])
        return filling is not None or bool(decoding)

    def cancel(self, request: Request) -> None:
        """Forget a request; its slot is free for the next step. Nothing happens if it is finished already.

        Only a mark is left, as an iterator may be closed by the garbage collector in the middle of a step.
        """
        request.done = True

    def generate(
        self,
        ids: Sequence[int],
        *,
        max_new: int,
        sampling: Sampling = GREEDY,
        stop_ids: frozenset[int] | None = None,
        top_logprobs: int | None = None,
    ) -> Generator[Token, None, None]:
        """Submit a request and yield its tokens; others that were submitted move along.

        The request is cancelled when the iterator is closed before its end. ServeError as for `submit`, at once.
        """
        request = self.submit(ids, max_new=max_new, sampling=sampling, stop_ids=stop_ids, top_logprobs=top_logprobs)
        tokens = self._tokens(request)
        next(tokens)
        return tokens

    def _tokens(self, request: Request) -> Generator[Token, None, None]:
        """The tokens of `request` after one that stands for none, as closing a generator needs it to have begun."""
        try:
            yield Token(-1)
            while request.made or not request.done:
                if request.made:
                    yield request.made.popleft()
                else:
                    self.step()
        finally:
            self.cancel(request)

    def score(self, ids: Sequence[int], *, top_logprobs: int = 0) -> list[Score]:
        """Run `ids` one by one through the decode graph; entry i speaks of the token after ids[i].

        The last entry has no next token, so its `logprob` is None. ServeError as for `submit`, and when every slot
        is taken.
        """
        self._check(ids, self.kv_max)
        self._release()
        if not self._free:
            raise ServeError(f"all {len(self._running)} slots are taken; a free one is needed to score a prompt")
        slot = self._free[0]
        sampler = Sampler(GREEDY, self.manifest.tokens.suppress)
        scores = []
        for position, token in enumerate(ids):
            logits = sampler.allowed(self._steps.decode({slot: (token, position)})[slot])
            log_probabilities = log_softmax(logits)
            following = ids[position + 1] if position + 1 < len(ids) else None
            logprob = None if following is None else float(log_probabilities[following])
            scores.append(Score(sampler.choose(logits), logprob, top(log_probabilities, top_logprobs)))
        self._free.rotate(-1)
        return scores

    @property
    def device_seconds(self) -> float:
        """Seconds spent in the runtime so far; the rest of a step's time is the host's."""
        return self._steps.device_seconds

    def close(self) -> None:
        """Release the device."""
        self._steps.close()

    def _prefill(self, slot: int, request: Request) -> None:
        chunk = request.ids[request.filled : request.filled + self.manifest.variant.kv_bucket]
        logits = self._steps.prefill(slot, chunk, request.filled)
        request.filled += len(chunk)
        if request.filled == len(request.ids):
            request.take(logits)

    def _admit(self) -> None:
        while self._waiting and self._free:
            request = self._waiting.popleft()
            if not request.done:
                self._running[self._free.popleft()] = request

    def _release(self) -> None:
        for slot in [slot for slot, request in self._running.items() if request.done]:
            del self._running[slot]
            self._free.append(slot)

    def _check(self, ids: Sequence[int], room: int) -> None:
        if not 1 <= len(ids) <= room:
            raise ServeError(f"the prompt has {len(ids)} tokens; 1 to {room} are accepted by this artifact")
        vocabulary = self.manifest.model.vocab_size
        for token in ids:
            if not 0 <= token < vocabulary:
                raise ServeError(f"the prompt holds token id {token}; 0 to {vocabulary - 1} are accepted")


def _token(chosen: int, logits: Floats, top_logprobs: int | None, finish: Literal["stop", "length"] | None) -> Token:
    if top_logprobs is None:
        return Token(chosen, finish=finish)
    log_probabilities = log_softmax(logits)
    return Token(chosen, float(log_probabilities[chosen]), top(log_probabilities, top_logprobs), finish)

"""Token ids in, token ids out: continuous batching over the slots of an artifact.

The engine knows no text. A request joins at any step and leaves at any step: it waits for a free slot, is prefilled
chunk by chunk, then takes part in every decode step until it stops. A chunk of prefill and a decode step of all
others take turns, so nobody waits longer than one chunk. What a request may read follows from its own positions
alone, so a slot needs no reset and its neighbours do not matter.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterable, Sequence
from pathlib import Path

from serve.errors import ServeError
from serve.fit import check_fit
from serve.manifest import Manifest, verify
from serve.request import Request, Score, Token, score
from serve.runtime import Runtime, load
from serve.sampling import GREEDY, Sampler, Sampling
from serve.steps import Steps
from serve.tables import HostTables

__all__ = ["Engine", "Request", "Score", "Token"]


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
        top_scores: int | None = None,
    ) -> Request:
        """Queue a request to continue `ids` by up to `max_new` tokens, or until both fill `kv_max` positions.

        Requests get their slots in the order of their submission. A token of `stop_ids` (the checkpoint's own when
        None) ends the answer and is its last token, with finish "stop". With `top_scores` the prompt is scored on its
        way, one decode step a token, and `max_new` may be 0. ServeError when the prompt is empty, does not fit, or
        holds an id outside the vocabulary, or when `max_new` is less than 1.
        """
        least = 1 if top_scores is None else 0
        if max_new < least:
            raise ServeError(f"max_new is {max_new}; {least} or more is accepted")
        self._check(ids, self.kv_max - min(max_new, 1))
        self._check_vocabulary("logit_bias", (token for token, _ in sampling.logit_bias))
        stops = frozenset(self.manifest.tokens.stop) if stop_ids is None else stop_ids
        sampler = Sampler(sampling, self.manifest.tokens.suppress, ids)
        request = Request(list(ids), min(max_new, self.kv_max - len(ids)), sampler, stops, top_logprobs, top_scores)
        self._waiting.append(request)
        return request

    def step(self) -> bool:
        """Admit who can be, run one chunk of the oldest unfinished prefill and one decode step of the others.

        False when there was nothing to do. Requests that are done leave their slots first.
        """
        self._release()
        self._admit()
        # A request whose prompt is done before this step decodes in it; one that finishes its prefill now has a token.
        decoding = {slot: request for slot, request in self._running.items() if not request.filling}
        filling = next((slot for slot, request in self._running.items() if request.filling), None)
        if filling is not None:
            self._prefill(filling, self._running[filling])
        if decoding:
            logits = self._steps.decode({slot: request.next for slot, request in decoding.items()})
            for slot, request in decoding.items():
                request.advance(logits[slot])
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
            following = ids[position + 1] if position + 1 < len(ids) else None
            scores.append(score(logits, following, top_logprobs))
        self._free.rotate(-1)
        return scores

    @property
    def room(self) -> int:
        """How many requests more the next step would admit."""
        ending = sum(request.done for request in self._running.values())
        waiting = sum(not request.done for request in self._waiting)
        return max(0, len(self._free) + ending - waiting)

    def call_meanwhile(self, function: Callable[[], None]) -> None:
        """Call `function` in every step from now on, each time when the device is about to work."""
        self._steps.meanwhile = function

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
        self._check_vocabulary("the prompt", ids)

    def _check_vocabulary(self, what: str, ids: Iterable[int]) -> None:
        vocabulary = self.manifest.model.vocab_size
        for token in ids:
            if not 0 <= token < vocabulary:
                raise ServeError(f"{what} holds token id {token}; 0 to {vocabulary - 1} are accepted")

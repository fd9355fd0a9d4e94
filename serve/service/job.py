"""A request as the event loop sees it: admitted, submitted, started, its tokens as they come, closed.

All of it belongs to the event loop but `Answer.seated`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal

from serve.request import Score, Token
from serve.sampling import GREEDY, Sampling
from serve.service.refusals import Refusal

End = Literal["finished", "timeout", "cancelled"]


@dataclass(frozen=True, slots=True)
class Ask:
    """A prompt to continue; the fields are those of `Engine.submit`."""

    ids: list[int]
    max_new: int
    sampling: Sampling = GREEDY
    stop_ids: frozenset[int] | None = None
    top_logprobs: int | None = None
    top_scores: int | None = None


@dataclass(eq=False)
class Answer:
    """One continuation of a job; `reason` is what the client was told, for the metrics."""

    job: Job
    index: int
    ask: Ask
    seated: bool = False  # has or had a slot: the engine's thread alone writes and reads it
    begun_at: float | None = None
    last_at: float = 0.0
    generated: int = 0
    ended: bool = False
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class Event:
    """What one step brought to one answer, at a time of the service's clock; `began` when it was given its slot."""

    answer: Answer
    at: float
    began: bool = False
    tokens: Sequence[Token] = ()
    scores: Sequence[Score] = ()
    end: End | Refusal | None = None


@dataclass(eq=False)
class Job:
    """A place in the service; `close` leaves it, whatever happens.

    `put` hands asks to the engine's thread and `drop` takes one back; `leave` gives places and prompt tokens back.
    """

    arrived: float
    places: int
    tokens: int
    put: Callable[[list[Answer]], None]
    drop: Callable[[Answer], None]
    leave: Callable[[int, int], None]
    answers: list[Answer] = field(default_factory=list)
    on_close: Callable[[], object] = lambda: None
    _inbox: list[Event] = field(default_factory=list)
    _wake: asyncio.Event = field(default_factory=asyncio.Event)
    _begun: bool = False
    _refusal: Refusal | None = None
    _closed: bool = False

    def submit(self, asks: Sequence[Ask]) -> None:
        """Queue what was admitted, now that its prompts are known; Refusal when the service has begun to drain."""
        if self._closed:
            return
        weights = [len(ask.ids) for ask in asks]
        self.leave(0, self.tokens - sum(weights))
        self.tokens = sum(weights)
        answers = [Answer(self, index, ask) for index, ask in enumerate(asks)]
        self.answers = answers  # first, as the engine's thread looks at an answer's siblings
        try:
            self.put(answers)
        except Refusal:
            self.answers = []
            raise

    async def begun(self) -> None:
        """Wait for the first slot, which is the last moment for an error status; Refusal instead of it."""
        while not (self._begun or self._refusal or self._closed):
            self._wake.clear()
            await self._wake.wait()
        if self._refusal is not None:
            raise self._refusal

    async def events(self) -> list[Event]:
        """What came since the last call, one event or more; nothing once the job is closed. Refusal if it fails."""
        while not (self._inbox or self._refusal or self._closed):
            self._wake.clear()
            await self._wake.wait()
        if self._refusal is not None and not self._inbox:
            raise self._refusal
        inbox, self._inbox = self._inbox, []
        return inbox

    def stop(self, index: int, reason: str) -> None:
        """End one answer, as its text is complete."""
        self.answers[index].reason = reason
        if not self.answers[index].ended:
            self.drop(self.answers[index])

    def receive(self, event: Event) -> None:
        """Take an event from the service."""
        if isinstance(event.end, Refusal):
            self._refusal = event.end
        else:
            self._begun = True
            self._inbox.append(event)
        if event.end is not None:
            self.leave(1, len(event.answer.ask.ids))
        self._wake.set()

    def close(self) -> None:
        """Leave: what still runs is cancelled, and its place is free once the engine says so."""
        if self._closed:
            return
        self._closed = True
        self._wake.set()
        self.on_close()
        for answer in self.answers:
            if not answer.ended:
                self.drop(answer)
        if not self.answers:
            self.leave(self.places, self.tokens)

"""What the HTTP server talks to: admission, state, drain; what the engine's thread sends arrives here once a step."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from typing import Literal, Protocol

from serve.engine import Engine
from serve.service.job import Answer, Event, Job
from serve.service.limits import Gate, Limits
from serve.service.refusals import Refusal, failed
from serve.service.worker import Worker

State = Literal["loading", "ready", "draining", "failed"]


class Observer(Protocol):
    """Who keeps the figures; all times are in seconds."""

    def started(self, waited: float) -> None:
        """An answer has its slot."""

    def tokens(self, count: int, since: float, *, first: bool) -> None:
        """Tokens came: the first since the request's arrival, later ones since the token before."""

    def ended(self, seconds: float, prompt: int, generated: int, reason: str) -> None:
        """An answer is over."""


class Service:
    """One engine behind a gate. Made and used on the event loop; the thread is a daemon and ends with `stop`."""

    def __init__(self, limits: Limits, observer: Observer, clock: Callable[[], float] = time.monotonic) -> None:
        self.limits, self._observer, self._clock = limits, observer, clock
        self.state: State = "loading"
        self.engine: Engine | None = None
        self.seated = 0  # answers that hold a slot
        self._gate = Gate(limits, 1, 1)
        self._seconds = 1.0  # how long an answer holds its slot, a moving average
        self._loop = asyncio.get_running_loop()
        self._worker = Worker(limits, clock, self._send)
        self._thread: threading.Thread | None = None
        self.loaded: asyncio.Future[None] = self._loop.create_future()
        self.failure: asyncio.Future[BaseException] = self._loop.create_future()
        self.drained = asyncio.Event()

    def start(self, load: Callable[[], Engine]) -> None:
        """Load the engine in its own thread, then work; `loaded` says how the first went, `failure` ends the second."""
        self._thread = threading.Thread(target=self._run, args=(load,), name="engine", daemon=True)
        self._thread.start()

    @property
    def admitted(self) -> int:
        """Answers that have a place, in a slot or before one."""
        return self._gate.answers

    @property
    def running(self) -> int:
        """Those for which there is a slot: they hold it, or get it before the next step."""
        return min(self._gate.answers, self._gate.slots)

    @property
    def waiting(self) -> int:
        """The others, which another has to leave its slot for; never more than the queue holds."""
        return self._gate.answers - self.running

    @property
    def capacity(self) -> int:
        """The most answers that are admitted at once."""
        return self._gate.capacity

    def check(self) -> Engine:
        """The engine; Refusal unless the service is ready."""
        if self.state == "ready" and self.engine is not None:
            return self.engine
        sentence = {"loading": "the model is loading", "draining": "the server is shutting down"}
        if self.state in sentence:
            kind: Literal["loading", "draining"] = "loading" if self.state == "loading" else "draining"
            raise Refusal(kind, f"{sentence[self.state]}; try again", 2.0)
        raise failed()

    def admit(self, answers: int, tokens: int) -> Job:
        """A place for `answers` with at most `tokens` prompt tokens in all; Refusal at once when there is none."""
        self.check()
        self._gate.enter(answers, tokens, self._retry_after())
        return Job(self._clock(), answers, tokens, self._put, self._worker.drop, self._leave)

    def drain(self) -> None:
        """Take nothing more and refuse what waits; `drained` is set when the last answer is out."""
        if self.state in ("loading", "ready"):
            self.state = "draining"
        self._worker.drain()
        self._leave(0, 0)

    def cut(self) -> None:
        """End what still runs where it is."""
        self._worker.cut()

    def stop(self, patience: float = 5.0) -> bool:
        """End the engine's thread after its present step; False when that took longer than `patience` seconds."""
        self._worker.stop()
        if self._thread is not None:
            self._thread.join(patience)
        return self._thread is None or not self._thread.is_alive()

    def _put(self, answers: list[Answer]) -> None:
        self.check()
        self._worker.put(answers)

    def _leave(self, answers: int, tokens: int) -> None:
        self._gate.leave(answers, tokens)
        if self.state == "draining" and not self._gate.answers:
            self.drained.set()

    def _retry_after(self) -> float:
        """When a place is likely to be free: the time in which the queue before it moves through the slots."""
        return min(30.0, max(0.25, self._seconds * (self.waiting + 1) / self._gate.slots))

    def _run(self, load: Callable[[], Engine]) -> None:
        """The engine's thread."""
        try:
            engine = load()
        except BaseException as error:
            self._call(self._not_loaded, error)
            return
        self._call(self._ready, engine)
        try:
            self._worker.run(engine)
        except BaseException as error:
            # First, so that whoever is told next finds the service in this state.
            self._call(self._failed, error)
            self._worker.fail()
        finally:
            engine.close()

    def _call(self, function: Callable[..., None], *arguments: object) -> None:
        # The loop may be closed already, when a process ends during a load; nobody is left to be told.
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(function, *arguments)

    def _ready(self, engine: Engine) -> None:
        self._gate = Gate(self.limits, engine.slots, engine.kv_max)
        self.engine = engine
        if self.state == "loading":
            self.state = "ready"
        self.loaded.set_result(None)

    def _not_loaded(self, error: BaseException) -> None:
        self.state = "failed"
        self.loaded.set_exception(error)

    def _failed(self, error: BaseException) -> None:
        self.state = "failed"
        self.failure.set_result(error)

    def _send(self, events: list[Event]) -> None:
        self._call(self._receive, events)

    def _receive(self, events: list[Event]) -> None:
        for event in events:
            self._note(event)
            event.answer.job.receive(event)

    def _note(self, event: Event) -> None:
        answer, arrived = event.answer, event.answer.job.arrived
        if event.began:
            answer.begun_at = event.at
            self.seated += 1
            self._observer.started(event.at - arrived)
        if event.tokens:
            first = not answer.generated
            self._observer.tokens(len(event.tokens), event.at - (arrived if first else answer.last_at), first=first)
            answer.generated += len(event.tokens)
            answer.last_at = event.at
        if event.end is None:
            return
        answer.ended = True
        if answer.begun_at is not None:
            self.seated -= 1
            self._seconds += 0.1 * (event.at - answer.begun_at - self._seconds)
        self._observer.ended(event.at - arrived, len(answer.ask.ids), answer.generated, _reason(event))


def _reason(event: Event) -> str:
    if isinstance(event.end, Refusal):
        return event.end.kind
    if event.answer.reason is not None:
        return event.answer.reason
    if event.end == "finished":
        return (event.tokens[-1].finish if event.tokens else None) or "length"
    return event.end or "cancelled"

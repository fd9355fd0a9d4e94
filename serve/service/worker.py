"""The thread that owns the engine: fills slots from the queue, steps, and sends what came, once a step.

What a step made is sent when the device begins the next one: the event loop then has the interpreter for itself while
it works on it. Sent at once, it would hold up the preparation of that step, or wait for it.

Others only put answers into its queue and mark them as dropped, under a lock that is never held during a step.
"""

from __future__ import annotations

import math
import threading
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TypeVar

from serve.engine import Engine
from serve.errors import ServeError
from serve.request import Request
from serve.service.job import Answer, End, Event
from serve.service.limits import Limits
from serve.service.refusals import Refusal, failed

Send = Callable[[list[Event]], None]
T = TypeVar("T")


@dataclass(eq=False)
class _Running:
    answer: Answer
    request: Request


class Worker:
    """Runs answers on an engine until it is told to stop; `send` is called from its thread, never with the lock."""

    def __init__(self, limits: Limits, clock: Callable[[], float], send: Send) -> None:
        self._limits, self._clock, self._send = limits, clock, send
        self._changed = threading.Condition()
        self._queue: deque[Answer] = deque()
        self._dropped: set[Answer] = set()
        self._running: list[_Running] = []
        self._made: list[Event] = []
        self._draining = False
        self._cut = False
        self._stopped = False
        self._failed = False

    def put(self, answers: Iterable[Answer]) -> None:
        """Queue answers; Refusal when the engine has failed."""
        with self._changed:
            if self._failed:
                raise failed()
            self._queue.extend(answers)
            self._changed.notify()

    def drop(self, answer: Answer) -> None:
        """Give an answer up: it leaves the queue, or its slot, before the next step."""
        with self._changed:
            self._dropped.add(answer)
            self._changed.notify()

    def drain(self) -> None:
        """Refuse what waits for its first slot; what has begun goes on."""
        with self._changed:
            self._draining = True
            self._changed.notify()

    def cut(self) -> None:
        """End what has begun where it is, as if its time were up."""
        with self._changed:
            self._draining = self._cut = True
            self._changed.notify()

    def stop(self) -> None:
        """End `run` before the next step."""
        with self._changed:
            self._stopped = True
            self._changed.notify()

    def run(self, engine: Engine) -> None:
        """Work until `stop`; whatever the engine raises goes out, and `fail` is to follow."""
        engine.call_meanwhile(self._send_made)
        while True:
            with self._changed:
                while not (self._queue or self._dropped or self._running or self._stopped):
                    self._changed.wait()
                if self._stopped:
                    return
                events = self._turn_over(engine)
            if events:
                self._made += events
                self._send_made()
            engine.step()
            self._made += self._collect()
            if not self._running:
                self._send_made()

    def fail(self) -> None:
        """Tell everybody that `run` has ended with an exception, and refuse what comes."""
        now = self._clock()
        with self._changed:
            self._failed = True
            left = [*self._queue, *(running.answer for running in self._running)]
            self._queue.clear()
            self._running = []
        self._made += (Event(answer, now, end=failed()) for answer in left)
        self._send_made()

    def _send_made(self) -> None:
        if self._made:
            made, self._made = self._made, []
            self._send(made)

    def _turn_over(self, engine: Engine) -> list[Event]:
        """Everything between two steps: drops, time limits, the drain, and free slots for who waits longest."""
        now = self._clock()
        events = [Event(answer, now, end="cancelled") for answer in self._queue if answer in self._dropped]
        overdue = math.inf if self._cut else now - self._limits.total_seconds
        for running in self._running:
            if running.answer in self._dropped or running.answer.job.arrived <= overdue:
                engine.cancel(running.request)
        refused = [
            Event(a, now, end=end) for a in self._queue if a not in self._dropped and (end := self._over(a, now))
        ]
        gone = {event.answer for event in (*events, *refused)}
        self._queue = deque(answer for answer in self._queue if answer not in gone)
        for _ in range(engine.room):
            if not self._queue:
                break
            answer = self._queue.popleft()
            answer.seated = True
            events.append(self._admit(engine, answer, now))
        return events + refused

    def _over(self, answer: Answer, now: float) -> Refusal | End | None:
        """Why an answer may not wait longer, if so."""
        waited = now - answer.job.arrived
        if any(sibling.seated for sibling in answer.job.answers):
            return "timeout" if self._cut or waited >= self._limits.total_seconds else None
        if self._draining:
            return Refusal("draining", "the server is shutting down; try again", 1.0)
        if waited >= min(self._limits.queue_seconds, self._limits.total_seconds):
            return Refusal("overloaded", f"no slot was free within {waited:.1f} s; try again", 1.0)
        return None

    def _admit(self, engine: Engine, answer: Answer, now: float) -> Event:
        ask = answer.ask
        try:
            request = engine.submit(
                ask.ids,
                max_new=ask.max_new,
                sampling=ask.sampling,
                stop_ids=ask.stop_ids,
                top_logprobs=ask.top_logprobs,
                top_scores=ask.top_scores,
            )
        except ServeError as error:
            return Event(answer, now, end=Refusal("failed", str(error)))
        self._running.append(_Running(answer, request))
        return Event(answer, now, began=True)

    def _collect(self) -> list[Event]:
        """What the step made, and who is done; a dropped answer's last tokens are of no use to anybody."""
        now = self._clock()
        events, staying = [], []
        with self._changed:
            for running in self._running:
                request, answer = running.request, running.answer
                tokens, scores = _taken(request.made), _taken(request.scores)
                finished = (tokens and tokens[-1].finish) or (request.done and not request.budget)
                end: End | None = None
                if request.done:
                    end = "finished" if finished else "cancelled" if answer in self._dropped else "timeout"
                    self._dropped.discard(answer)
                else:
                    staying.append(running)
                if tokens or scores or end:
                    events.append(Event(answer, now, tokens=tokens, scores=scores, end=end))
            self._running = staying
            self._dropped &= {*self._queue, *(running.answer for running in staying)}
        return events


def _taken(items: deque[T]) -> list[T]:
    taken = list(items)
    items.clear()
    return taken

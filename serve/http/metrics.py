"""Prometheus metrics: vLLM's names and meanings under our prefix, and what the status page shows of the recent past."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from resource import getpagesize

import prometheus_client
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, Info, generate_latest

PREFIX = "neff_foundry"
STATES = ("loading", "ready", "draining", "failed")
_FIRST = (0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 60)
_BETWEEN = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5)
_WHOLE = (0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 60, 120, 300, 600)
_WINDOW = 10.0  # seconds over which tokens per second are counted

prometheus_client.disable_created_metrics()  # type: ignore[no-untyped-call]


@dataclass(frozen=True, slots=True)
class Recent:
    """An answer of the recent past; times in seconds."""

    seconds: float
    generated: int
    reason: str


class Metrics:
    """The figures of one server; an `Observer` of its service."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self.registry = CollectorRegistry()

        def histogram(name: str, words: str, buckets: tuple[float, ...]) -> Histogram:
            return Histogram(f"{PREFIX}_{name}", words, buckets=buckets, registry=self.registry)

        def gauge(name: str, words: str) -> Gauge:
            return Gauge(f"{PREFIX}_{name}", words, registry=self.registry)

        def counter(name: str, words: str, labels: tuple[str, ...] = ()) -> Counter:
            return Counter(f"{PREFIX}_{name}", words, labels, registry=self.registry)

        self.running = gauge("num_requests_running", "answers that hold a slot, or get one before the next step")
        self.waiting = gauge("num_requests_waiting", "answers that wait until another leaves its slot")
        self._first = histogram("time_to_first_token_seconds", "from arrival to the first token", _FIRST)
        self._between = histogram("inter_token_latency_seconds", "from one token to the next", _BETWEEN)
        self._whole = histogram("e2e_request_latency_seconds", "from arrival to the last token", _WHOLE)
        self._queue = histogram("request_queue_time_seconds", "from arrival to the slot", _FIRST)
        self._prompt = counter("prompt_tokens", "prompt tokens of answers that are over")
        self._generated = counter("generation_tokens", "generated tokens")
        self._ended = counter("request_success", "answers that are over, by reason", ("finished_reason",))
        self._errors = counter("errors", "requests answered with an error, by its code", ("kind",))
        self._rate = gauge("tokens_per_second", f"generated tokens per second over the last {_WINDOW:.0f} seconds")
        self._memory = gauge("resident_memory_bytes", "resident memory of the process")
        self._state = Gauge(f"{PREFIX}_state", "1 for the state of the server", ("state",), registry=self.registry)
        self._draining = gauge("draining", "1 while running requests finish and no more are taken")
        self._info = Info(f"{PREFIX}_artifact", "what is served", registry=self.registry)
        self.recent: deque[Recent] = deque(maxlen=200)
        self.first_tokens: deque[float] = deque(maxlen=200)
        self._made: deque[tuple[float, int]] = deque()

    def describe(self, facts: dict[str, str]) -> None:
        """Say what is served: digest, variant and so on."""
        self._info.info(facts)

    def started(self, waited: float) -> None:
        """An answer has its slot."""
        self._queue.observe(waited)

    def tokens(self, count: int, since: float, *, first: bool) -> None:
        """Tokens came; `since` is in seconds, from arrival for the first."""
        (self._first if first else self._between).observe(since)
        if first:
            self.first_tokens.append(since)
        self._generated.inc(count)
        now = self._clock()
        if self._made and now - self._made[-1][0] < 0.1:
            self._made[-1] = (self._made[-1][0], self._made[-1][1] + count)
        else:
            self._made.append((now, count))
            self._forget(now)

    def ended(self, seconds: float, prompt: int, generated: int, reason: str) -> None:
        """An answer is over."""
        self._whole.observe(seconds)
        self._prompt.inc(prompt)
        self._ended.labels(reason).inc()
        self.recent.append(Recent(seconds, generated, reason))

    def error(self, kind: str) -> None:
        """A request was answered with an error."""
        self._errors.labels(kind).inc()

    @property
    def tokens_per_second(self) -> float:
        """Over the last seconds."""
        self._forget(self._clock())
        return sum(count for _, count in self._made) / _WINDOW

    def render(self, state: str, running: int, waiting: int) -> bytes:
        """The page for Prometheus, in its text format."""
        self.running.set(running)
        self.waiting.set(waiting)
        self._rate.set(self.tokens_per_second)
        self._memory.set(resident_bytes())
        self._draining.set(state == "draining")
        for name in STATES:
            self._state.labels(name).set(name == state)
        return generate_latest(self.registry)

    def _forget(self, now: float) -> None:
        while self._made and self._made[0][0] < now - _WINDOW:
            self._made.popleft()


def resident_bytes() -> int:
    """Resident memory of this process."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * getpagesize()

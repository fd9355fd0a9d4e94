"""Taking turns: the same tasks for every side, one after the other, round by round, each side in its own process."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from validate.bench.lines import Worker, WorkerFailed

FAR_BEHIND = 1.5
"""A mode sits out once it takes so many times what the best mode takes: at full size a round of it costs minutes."""

Prompts = Sequence[Sequence[int]]


@dataclass(frozen=True)
class Task:
    """What is asked in one turn: `prompts`, one for each busy slot, and the steps, that of the first token included."""

    name: str
    prompts: Prompts
    steps: int


class Participant:
    """One worker in one mode, and its times so far; it drops out at its first failure."""

    def __init__(self, worker: Worker, request: Mapping[str, Any]) -> None:
        self._worker, self._request = worker, dict(request)
        self._times: dict[str, list[list[float]]] = {}
        self.reason: str | None = None

    def turn(self, task: Task) -> None:
        """Do the task once and keep its times."""
        if self.reason is not None:
            return
        try:
            times = self._worker.ask(prompts=task.prompts, steps=task.steps, **self._request)
            if len(times) != task.steps:
                raise WorkerFailed(f"made {len(times)} tokens of {task.steps}")
        except WorkerFailed as error:
            self.reason = str(error)
            return
        self._times.setdefault(task.name, []).append(times)

    def forget(self) -> None:
        """Start again: what came before was to warm up."""
        self._times.clear()

    def times(self, name: str) -> list[list[float]]:
        """Seconds of every turn at a task: to the end of the first step, then from step to step."""
        return self._times.get(name, [])

    def first(self, name: str) -> float:
        """Median seconds to the end of the first step of a task; infinite for one that dropped out."""
        return math.inf if self.reason else median(times[0] for times in self.times(name))

    def step(self, name: str) -> float:
        """Median seconds from step to step of a task; infinite for one that dropped out."""
        return math.inf if self.reason else median(step for times in self.times(name) for step in times[1:])


def close_ones(modes: Sequence[Participant], seconds: Callable[[Participant], float]) -> list[Participant]:
    """The modes whose `seconds` are not far behind the best one's."""
    best = min(map(seconds, modes), default=math.inf)
    return [mode for mode in modes if seconds(mode) <= FAR_BEHIND * best]

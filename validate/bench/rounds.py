"""Rounds of a bench: the artifact and the modes of transformers take turns, each side in its own process.

Only the best mode counts in the end, so one that is far behind the best sits out the rounds that are left: at full
size a round of it costs minutes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from statistics import median
from typing import Any

from ledger.errors import BadInput
from ledger.stage import say
from validate.bench.figures import figures
from validate.bench.lines import Worker, WorkerFailed
from validate.bench.transformers_worker import MODES

Command = tuple[str, ...]
FAR_BEHIND = 1.5
"""A mode sits out once its median step is so many times the best mode's."""


@dataclass(frozen=True)
class Plan:
    """Tokens of the timed prompt, of the answer (at least 2), and of the prompt whose prefill is timed."""

    prompt: int
    new: int
    prefill: int


class Participant:
    """One worker in one mode, and its times so far; it drops out at its first failure."""

    def __init__(self, worker: Worker, request: Mapping[str, Any]) -> None:
        self._worker, self._request = worker, dict(request)
        self._answers: list[list[float]] = []
        self._prefills: list[float] = []
        self._reason: str | None = None

    def warm_up(self, ids: list[int]) -> None:
        """One short answer that is not counted: first calls allocate."""
        self._try(lambda: self._worker.ask(ids=ids, max_new=2, **self._request))

    def round(self, ids: list[int], new: int, prefill: list[int]) -> None:
        """One timed answer and one timed prefill."""

        def run() -> None:
            answer = self._worker.ask(ids=ids, max_new=new, **self._request)
            if len(answer) != new:
                raise WorkerFailed(f"made {len(answer)} tokens of {new}")
            first, *_ = self._worker.ask(ids=prefill, max_new=1, **self._request)
            self._answers.append(answer)
            self._prefills.append(first)

        self._try(run)

    def cell(self, prefill_tokens: int) -> dict[str, Any]:
        """Its figures, or the reason why there are none."""
        if self._reason is not None:
            return {"reason": self._reason}
        return figures(self._answers, self._prefills, prefill_tokens)

    def step(self) -> float:
        """Median seconds from token to token so far; infinite for one that dropped out."""
        if self._reason is not None:
            return math.inf
        return median(step for answer in self._answers for step in answer[1:])

    def _try(self, run: Callable[[], object]) -> None:
        if self._reason is not None:
            return
        try:
            run()
        except WorkerFailed as error:
            self._reason = str(error)


def measure(
    subject: Command, reference: Command, prompts: Callable[[int], list[int]], plan: Plan, rounds: int
) -> dict[str, Any]:
    """Rounds of both sides in turn; `subject` and `reference` are a worker's module and arguments.

    Raises BadInput when the subject cannot run; a reference that cannot is recorded.
    """
    with ExitStack() as stack:
        try:
            worker = stack.enter_context(Worker(subject[0], subject[1:]))
        except WorkerFailed as error:
            raise BadInput(f"--artifact {subject[1]} cannot run: {error}") from None
        mine, others = Participant(worker, {}), _reference(stack, reference)
        modes = [one for one in others.values() if isinstance(one, Participant)]
        short, prompt, prefill = (prompts(n) for n in (min(4, plan.prompt), plan.prompt, plan.prefill))
        for participant in (mine, *modes):
            participant.warm_up(short)
        for number in range(1, rounds + 1):
            for participant in (mine, *modes):
                participant.round(prompt, plan.new, prefill)
            best = min((mode.step() for mode in modes), default=math.inf)
            modes = [mode for mode in modes if mode.step() <= FAR_BEHIND * best]
            say(f"bench: round {number} of {rounds}")
        own = mine.cell(plan.prefill)
        if "reason" in own:
            raise BadInput(f"--artifact {subject[1]} cannot be timed: {own['reason']}")
        cells = {
            mode: one.cell(plan.prefill) if isinstance(one, Participant) else {"reason": one}
            for mode, one in others.items()
        }
        own |= {"load_s": round(worker.load_s, 3), "peak_rss_mb": round(worker.peak_rss_mb, 1)}
        return own | _beside(own["decode_tok_s"], cells)


def _reference(stack: ExitStack, command: Command) -> dict[str, Participant | str]:
    """Every mode of transformers, or the reason why none of them can run."""
    try:
        worker = stack.enter_context(Worker(command[0], command[1:]))
    except WorkerFailed as error:
        return dict.fromkeys(MODES, str(error))
    return {mode: Participant(worker, {"mode": mode}) for mode in MODES}


def _beside(decode_tok_s: float, cells: dict[str, Any]) -> dict[str, Any]:
    """The best of transformers' modes, and how many times as fast the subject decodes."""
    speeds = {mode: cell["decode_tok_s"] for mode, cell in cells.items() if "reason" not in cell}
    best = max(speeds, key=speeds.__getitem__, default=None)
    return {
        "transformers": cells,
        "transformers_best": best,
        "transformers_decode_tok_s": speeds[best] if best else None,
        "decode_vs_transformers": round(decode_tok_s / speeds[best], 2) if best else None,
    }

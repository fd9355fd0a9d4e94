"""Rounds of a variant's bench: the artifact and the modes of transformers take turns, with a read probe beside them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from statistics import median
from typing import Any

from ledger.errors import BadInput
from ledger.stage import say
from validate.bench.figures import figures
from validate.bench.lines import Worker, WorkerFailed
from validate.bench.transformers_worker import MODES
from validate.bench.turns import Participant, Task, close_ones

Command = tuple[str, ...]
PROBE_STEPS = 3
"""Passes of the read probe a round."""


@dataclass(frozen=True)
class Plan:
    """What is timed, in tokens: a prompt and its answer (at least 2), a prompt whose prefill is timed, and answers of
    `context_new` tokens after prompts of `contexts`; with `slots` > 1 also that many answers of `slots_new` at once.
    """

    prompt: int
    new: int
    prefill: int
    contexts: tuple[int, ...] = ()
    context_new: int = 8
    slots: int = 1
    slots_prompt: int = 1
    slots_new: int = 2

    def tasks(self, prompts: Callable[[int], list[int]]) -> Iterator[Task]:
        """One round's tasks, with prompts of the wanted lengths."""
        yield Task("answer", [prompts(self.prompt)], self.new)
        yield Task("prefill", [prompts(self.prefill)], 1)
        for context in self.contexts:
            yield Task(_context(context), [prompts(context)], self.context_new)
        if self.slots > 1:
            yield Task("slots", [prompts(self.slots_prompt) for _ in range(self.slots)], self.slots_new)


def _context(tokens: int) -> str:
    return f"context {tokens}"


def measure(
    subject: Command,
    reference: Command,
    probe: Command,
    prompts: Callable[[int], list[int]],
    plan: Plan,
    rounds: int,
) -> dict[str, Any]:
    """Rounds of all sides in turn; `subject`, `reference` and `probe` are a worker's module and arguments.

    Raises BadInput when the subject cannot run; a reference that cannot is recorded.
    """
    with ExitStack() as stack:
        try:
            worker = stack.enter_context(Worker(subject[0], subject[1:]))
        except WorkerFailed as error:
            raise BadInput(f"--artifact {subject[1]} cannot run: {error}") from None
        mine, others = Participant(worker, {}), reference_modes(stack, reference)
        memory = stack.enter_context(Worker(probe[0], probe[1:]))
        passes: list[float] = []
        modes = [one for one in others.values() if isinstance(one, Participant)]
        warm = Task("warm", [prompts(min(4, plan.prompt))], 2)
        for participant in (mine, *modes):
            participant.turn(warm)
        tasks = list(plan.tasks(prompts))
        for number in range(1, rounds + 1):
            for participant in (mine, *modes):
                for task in tasks:
                    participant.turn(task)
            passes += memory.ask(steps=PROBE_STEPS)
            modes = close_ones(modes, lambda mode: mode.step("answer"))
            say(f"bench: round {number} of {rounds}")
        if mine.reason is not None:
            raise BadInput(f"--artifact {subject[1]} cannot be timed: {mine.reason}")
        own = cell(mine, plan) | {
            "load_s": round(worker.load_s, 3),
            "peak_rss_mb": round(worker.facts["peak_rss_mb"], 1),
            "read_gb_s": round(memory.facts["bytes"] / median(passes) / 1e9, 2),
        }
        return own | _beside(mine, others, plan)


def reference_modes(stack: ExitStack, command: Command) -> dict[str, Participant | str]:
    """Every mode of transformers, or the reason why none of them can run."""
    try:
        worker = stack.enter_context(Worker(command[0], command[1:]))
    except WorkerFailed as error:
        return dict.fromkeys(MODES, str(error))
    return {mode: Participant(worker, {"mode": mode}) for mode in MODES}


def cell(one: Participant, plan: Plan) -> dict[str, Any]:
    """A participant's figures, or the reason why there are none."""
    if one.reason is not None:
        return {"reason": one.reason}
    return figures(one.times("answer"), [first for first, *_ in one.times("prefill")], plan.prefill)


def _beside(mine: Participant, others: Mapping[str, Participant | str], plan: Plan) -> dict[str, Any]:
    """What both sides did: the best of transformers' modes, and how many times as fast the subject decodes."""
    cells = {mode: {"reason": one} if isinstance(one, str) else cell(one, plan) for mode, one in others.items()}
    ran = {mode: one for mode, one in others.items() if isinstance(one, Participant) and one.reason is None}
    best = min(ran, key=lambda mode: ran[mode].step("answer"), default=None)
    speed = float(cells[best]["decode_tok_s"]) if best else None
    theirs = list(ran.values())
    return {
        "transformers": cells,
        "transformers_best": best,
        "transformers_decode_tok_s": speed,
        "decode_vs_transformers": round(1 / mine.step("answer") / speed, 2) if speed else None,
        "contexts": [
            {
                "tokens": tokens,
                "decode_tok_s": _rounded(best_rate([mine], _context(tokens))),
                "transformers_decode_tok_s": _rounded(best_rate(theirs, _context(tokens))),
            }
            for tokens in plan.contexts
        ],
        "batch_tok_s": _rounded(best_rate([mine], "slots", plan.slots)),
        "transformers_batch_tok_s": _rounded(best_rate(theirs, "slots", plan.slots)),
    }


def best_rate(ones: Sequence[Participant], name: str, streams: int = 1) -> float | None:
    """Tokens a second of all streams together, of the fastest that did the task; None where nobody did."""
    steps = [one.step(name) for one in ones if one.times(name) and one.reason is None]
    return streams / min(steps) if steps else None


def _rounded(rate: float | None) -> float | None:
    return None if rate is None else round(rate, 2)

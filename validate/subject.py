"""Puts an engine through a prompt set and judges every answer.

Every prompt is run three times. The first run, in the order of the set, is compared with the oracle. The second
follows another, longer, prompt, so that rows of the cache that the first request never wrote hold somebody else's
text; the third follows at once. A subject with several slots then answers all prompts side by side. Every further run
must equal the first token for token, in every dtype: an engine may round, but neither remember nor overhear.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Protocol, runtime_checkable

from ledger.errors import BadInput
from validate.compare import Judged, each, first_difference, follow
from validate.findings import Report
from validate.records import Answer, HeldoutAnswer, Oracle, Prompt, PromptSet

Say = Callable[[str], None]


class HasId(Protocol):
    """A generated token."""

    @property
    def id(self) -> int: ...


class HasScore(Protocol):
    """A teacher-forced position: its choice, and the log-probability of the id that follows (None after the last)."""

    @property
    def argmax(self) -> int: ...

    @property
    def logprob(self) -> float | None: ...


class Subject(Protocol):
    """The part of serve.engine.Engine that parity drives."""

    def generate(
        self, ids: Sequence[int], *, max_new: int, stop_ids: frozenset[int] | None = None
    ) -> Iterator[HasId]: ...

    def score(self, ids: Sequence[int]) -> Sequence[HasScore]: ...


class HasMade(Protocol):
    """A submitted request, with the tokens that it has so far."""

    @property
    def made(self) -> Iterable[HasId]: ...


@runtime_checkable
class Batched(Protocol):
    """What a subject has besides if it can run `slots` requests side by side: `step` is False when all are done."""

    @property
    def slots(self) -> int: ...

    def submit(self, ids: Sequence[int], *, max_new: int, stop_ids: frozenset[int] | None = None) -> HasMade: ...

    def step(self) -> bool: ...


def examine(
    subject: Subject, asked: PromptSet, oracle: Oracle, *, epsilon: float, logprob_tolerance: float | None, say: Say
) -> Report:
    """Run everything and judge it; `epsilon` is in logits, 0 for float32, `logprob_tolerance` in nats, None for others.

    Raises BadInput when the oracle has no answer to one of the prompts.
    """
    answers, forced = _matched(asked, oracle), _forced(asked, oracle)
    report = Report(prompts=len(asked.prompts))
    firsts: dict[str, list[int]] = {}
    with _timed(report, "oracle"):
        for number, prompt in enumerate(asked.prompts, 1):
            firsts[prompt.name] = _run(subject, prompt, prompt.ids, prompt.max_new)
            judged = _against_oracle(subject, prompt, answers[prompt.name], firsts[prompt.name], epsilon)
            report.tokens += judged.tokens
            report.agreed += judged.agreed
            report.add("oracle", prompt.name, judged.mismatches, judged.exemptions)
            if number % 16 == 0 or number == len(asked.prompts):
                say(f"{number} of {len(asked.prompts)} prompts, {len(report.mismatches)} mismatches")
    with _timed(report, "repeats"):
        _repeats(subject, asked.prompts, firsts, report)
    if isinstance(subject, Batched) and subject.slots > 1:
        with _timed(report, "together"):
            _together(subject, asked.prompts, firsts, report)
    with _timed(report, "heldout"):
        for window in asked.heldout:
            scores, right = subject.score(window.ids), forced[window.name]
            judged = each(right.tokens, right.gaps, [score.argmax for score in scores], epsilon=epsilon)
            logprobs = [score.logprob for score in scores]
            report.compare_logprobs(window.name, right.logprobs, logprobs, logprob_tolerance)
            report.heldout_tokens += judged.tokens
            report.heldout_agreed += judged.agreed
            report.add("heldout", window.name, judged.mismatches, judged.exemptions)
    return report


def _against_oracle(subject: Subject, prompt: Prompt, answer: Answer, first: list[int], epsilon: float) -> Judged:
    def again(ids: list[int], limit: int) -> list[int]:
        return _run(subject, prompt, ids, limit)

    return follow(prompt.ids, answer.tokens, answer.gaps, again, max_new=prompt.max_new, epsilon=epsilon, first=first)


def _repeats(subject: Subject, prompts: Sequence[Prompt], firsts: Mapping[str, list[int]], report: Report) -> None:
    longest_first = sorted(prompts, key=lambda prompt: -len(prompt.ids))
    # The longest has no longer one before it, and a single prompt none at all: it follows itself, backwards.
    stranger = longest_first[-1] if len(prompts) > 1 else prompts[0]
    _run(subject, stranger, stranger.ids if len(prompts) > 1 else stranger.ids[::-1], stranger.max_new)
    for prompt in longest_first:
        for check in ("after-another", "repeated"):
            found = first_difference(firsts[prompt.name], _run(subject, prompt, prompt.ids, prompt.max_new))
            report.add(check, prompt.name, [found] if found else [])


def _together(subject: Batched, prompts: Sequence[Prompt], firsts: Mapping[str, list[int]], report: Report) -> None:
    requests = [subject.submit(prompt.ids, max_new=prompt.max_new, stop_ids=_stops(prompt)) for prompt in prompts]
    while subject.step():
        pass
    for prompt, request in zip(prompts, requests, strict=True):
        found = first_difference(firsts[prompt.name], [token.id for token in request.made])
        report.add("together", prompt.name, [found] if found else [])


def _run(subject: Subject, prompt: Prompt, ids: Sequence[int], limit: int) -> list[int]:
    return [token.id for token in subject.generate(ids, max_new=limit, stop_ids=_stops(prompt))]


def _stops(prompt: Prompt) -> frozenset[int] | None:
    """The checkpoint's own stop ids, or none at all."""
    return None if prompt.stop else frozenset()


def _matched(asked: PromptSet, oracle: Oracle) -> dict[str, Answer]:
    """The oracle's answer to every prompt, by the prompt's name: same ids, same stops, at least as many tokens."""
    known = {(answer.ids, answer.stop): answer for answer in oracle.answers}
    matched: dict[str, Answer] = {}
    for prompt in asked.prompts:
        answer = known.get((prompt.ids, prompt.stop))
        if answer is None or answer.max_new < prompt.max_new:
            found = "no answer" if answer is None else f"an answer of at most {answer.max_new} tokens"
            raise BadInput(
                f"prompt {prompt.name}: the oracle has {found}; accepted: an oracle asked for the same ids "
                f"and {prompt.max_new} tokens, with stop ids {'on' if prompt.stop else 'off'}"
            )
        cut = slice(prompt.max_new)
        matched[prompt.name] = answer.model_copy(update={"tokens": answer.tokens[cut], "gaps": answer.gaps[cut]})
    return matched


def _forced(asked: PromptSet, oracle: Oracle) -> dict[str, HeldoutAnswer]:
    """The oracle's choices on every held-out window, by the window's name."""
    known = {answer.ids: answer for answer in oracle.heldout}
    missing = [window.name for window in asked.heldout if window.ids not in known]
    if missing:
        raise BadInput(f"window {missing[0]}: the oracle has no answer; accepted: an oracle asked for the same ids")
    return {window.name: known[window.ids] for window in asked.heldout}


@contextmanager
def _timed(report: Report, part: str) -> Iterator[None]:
    started = time.monotonic()
    yield
    report.seconds[part] = round(time.monotonic() - started, 3)

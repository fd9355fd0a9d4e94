"""The rule of parity, and nothing else: when an answer agrees with the oracle's, and when it may differ.

A token is one of three: equal; exempt, where the oracle itself was undecided (its top-1/top-2 gap is under
`epsilon`); or a mismatch. Departs from counting equal tokens of two free runs: after an exempt difference the
histories differ, so what follows would be compared with the answer to another prompt. Here the run is taken up again
from the oracle's own history, and every position of the oracle's answer is judged once. With `epsilon` 0 nothing is
exempt.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest

Run = Callable[[list[int], int], Sequence[int]]


@dataclass(frozen=True, slots=True)
class Difference:
    """Position `position` of an answer, from 0: `expected` or `got` is None where that answer had already ended."""

    position: int
    expected: int | None
    got: int | None
    gap: float | None

    def exempt(self, epsilon: float) -> bool:
        """Whether the oracle's gap, in logits, excuses it; a missing or surplus token is never excused."""
        return self.expected is not None and self.got is not None and self.gap is not None and self.gap < epsilon


@dataclass(frozen=True, slots=True)
class Judged:
    """Positions judged and equal, what was exempt, and the mismatches (a free run ends at its first)."""

    tokens: int
    agreed: int
    exemptions: tuple[Difference, ...] = ()
    mismatches: tuple[Difference, ...] = ()


def follow(
    prompt: Sequence[int],
    expected: Sequence[int],
    gaps: Sequence[float],
    run: Run,
    *,
    max_new: int,
    epsilon: float,
    first: Sequence[int] | None = None,
) -> Judged:
    """Judge free runs of a subject against the oracle's answer `expected` [n], `gaps` [n].

    `run(ids, limit)` gives the subject's greedy answer to `ids`, at most `limit` tokens; `first`, where it is given,
    is its answer to `prompt`, already made. After an exempt difference at position i the subject is run again on the
    prompt and `expected[:i + 1]`.
    """
    exemptions: list[Difference] = []
    start = 0
    got = run(list(prompt), max_new) if first is None else first
    while (found := _first(expected, gaps, got, start)) is not None:
        if not found.exempt(epsilon):
            judged = found.position + 1
            return Judged(judged, judged - 1 - len(exemptions), tuple(exemptions), (found,))
        exemptions.append(found)
        start = found.position + 1
        if start == len(expected):
            break
        got = run([*prompt, *expected[:start]], max_new - start)
    return Judged(len(expected), len(expected) - len(exemptions), tuple(exemptions))


def each(expected: Sequence[int], gaps: Sequence[float], got: Sequence[int], *, epsilon: float) -> Judged:
    """Judge every position on its own, as under teacher forcing, where histories cannot differ."""
    found = list(_differences(expected, gaps, got, 0))
    exemptions = tuple(one for one in found if one.exempt(epsilon))
    mismatches = tuple(one for one in found if not one.exempt(epsilon))
    tokens = max(len(expected), len(got))
    return Judged(tokens, tokens - len(found), exemptions, mismatches)


def first_difference(expected: Sequence[int], got: Sequence[int]) -> Difference | None:
    """Where two runs of the same thing part, or None; there is no gap to excuse it."""
    return _first(expected, [], got, 0)


def _first(expected: Sequence[int], gaps: Sequence[float], got: Sequence[int], start: int) -> Difference | None:
    return next(_differences(expected, gaps, got, start), None)


def _differences(
    expected: Sequence[int], gaps: Sequence[float], got: Sequence[int], start: int
) -> Iterator[Difference]:
    """Differences of `got`, whose first token stands at position `start`, from `expected`."""
    pairs = zip_longest(expected[start:], got)
    for position, (wanted, token) in enumerate(pairs, start):
        if wanted != token:
            yield Difference(position, wanted, token, gaps[position] if position < len(gaps) else None)

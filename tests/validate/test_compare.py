"""The rule against a second telling of it: walk the positions, and let the first unexcused difference end the walk."""

from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from validate.compare import Difference, each, first_difference, follow

PROMPT = [2, 7, 7]
GAPS = (0.0, 0.25, 0.5, 3.0)
GARBAGE = 999


class Case(NamedTuple):
    """An oracle's answer, and what the subject says instead at some positions."""

    expected: list[int]
    gaps: list[float]
    changed: dict[int, int]


@st.composite
def cases(draw: st.DrawFn) -> Case:
    """Up to twelve tokens; a changed token is never the expected one."""
    expected = draw(st.lists(st.integers(0, 9), min_size=1, max_size=12))
    gaps = draw(st.lists(st.sampled_from(GAPS), min_size=len(expected), max_size=len(expected)))
    changed = draw(st.dictionaries(st.integers(0, len(expected) - 1), st.integers(10, 19), max_size=4))
    return Case(expected, gaps, changed)


class Scripted:
    """Says the expected tokens but for the changed ones, and garbage once its history is not the oracle's."""

    def __init__(self, case: Case) -> None:
        self.case = case
        self.calls: list[tuple[int, int]] = []

    def __call__(self, ids: list[int], limit: int) -> list[int]:
        history = ids[len(PROMPT) :]
        self.calls.append((len(history), limit))
        assert ids[: len(PROMPT)] == PROMPT
        said: list[int] = []
        for position in range(len(history), len(history) + limit):
            if [*history, *said] != self.case.expected[:position]:
                said.append(GARBAGE)
            else:
                said.append(self.case.changed.get(position, self.case.expected[position]))
        return said


@given(cases(), st.sampled_from((0.0, 0.25, 0.3, 1.0)))
def test_every_position_is_judged_once_on_the_oracles_history(case: Case, epsilon: float) -> None:
    allowed = []
    stop = None
    for position in sorted(case.changed):
        if case.gaps[position] < epsilon:
            allowed.append(position)
        else:
            stop = position
            break
    judged = follow(PROMPT, case.expected, case.gaps, Scripted(case), max_new=len(case.expected), epsilon=epsilon)

    assert [one.position for one in judged.exemptions] == allowed
    assert [one.position for one in judged.mismatches] == ([] if stop is None else [stop])
    assert judged.tokens == (len(case.expected) if stop is None else stop + 1)
    assert judged.agreed == judged.tokens - len(allowed) - (stop is not None)
    for one in (*judged.exemptions, *judged.mismatches):
        assert (one.expected, one.got, one.gap) == (
            case.expected[one.position],
            case.changed[one.position],
            case.gaps[one.position],
        )


@given(cases())
def test_float32_has_no_exemption(case: Case) -> None:
    judged = follow(PROMPT, case.expected, case.gaps, Scripted(case), max_new=len(case.expected), epsilon=0.0)
    assert not judged.exemptions
    assert bool(judged.mismatches) == bool(case.changed)


@given(cases(), st.sampled_from((0.0, 0.3, 1.0)))
def test_a_run_already_made_is_not_made_again(case: Case, epsilon: float) -> None:
    limit = len(case.expected)
    fresh, spared = Scripted(case), Scripted(case)
    first = Scripted(case)(PROMPT, limit)
    judged = follow(PROMPT, case.expected, case.gaps, spared, max_new=limit, epsilon=epsilon, first=first)
    assert judged == follow(PROMPT, case.expected, case.gaps, fresh, max_new=limit, epsilon=epsilon)
    assert spared.calls == fresh.calls[1:]


@pytest.mark.parametrize(
    ("got", "difference"),
    [
        ([5, 6], Difference(2, 1, None, 0.1)),
        ([5, 6, 1, 8], Difference(3, None, 8, None)),
        ([], Difference(0, 5, None, 0.1)),
    ],
)
def test_a_missing_or_surplus_token_is_never_excused(got: list[int], difference: Difference) -> None:
    judged = follow([2], [5, 6, 1], [0.1] * 3, lambda _ids, _limit: got, max_new=8, epsilon=100.0)
    assert judged.mismatches == (difference,)
    assert judged.exemptions == ()


def test_the_budget_of_a_resumed_run_is_what_is_left() -> None:
    limits = []

    def run(ids: list[int], limit: int) -> list[int]:
        limits.append((len(ids), limit))
        return [9, 9, 9, 9] if len(ids) == 1 else [2, 3, 4]

    judged = follow([2], [1, 2, 3, 4], [0.0] * 4, run, max_new=4, epsilon=0.5)
    assert limits == [(1, 4), (2, 3)]
    assert (judged.tokens, judged.agreed, len(judged.exemptions)) == (4, 3, 1)


@given(cases(), st.sampled_from((0.0, 0.3, 1.0)))
def test_teacher_forced_positions_stand_alone(case: Case, epsilon: float) -> None:
    got = [case.changed.get(position, token) for position, token in enumerate(case.expected)]
    judged = each(case.expected, case.gaps, got, epsilon=epsilon)
    assert {one.position for one in judged.exemptions} == {p for p in case.changed if case.gaps[p] < epsilon}
    assert {one.position for one in judged.mismatches} == {p for p in case.changed if case.gaps[p] >= epsilon}
    assert (judged.tokens, judged.agreed) == (len(got), len(got) - len(case.changed))


@pytest.mark.parametrize(
    ("left", "right", "position"),
    [([1, 2], [1, 2], None), ([1, 2], [1, 3], 1), ([1, 2], [1], 1), ([], [4], 0), ([], [], None)],
)
def test_first_difference(left: list[int], right: list[int], position: int | None) -> None:
    found = first_difference(left, right)
    assert (found.position if found else None) == position
    assert found is None or not found.exempt(100.0)

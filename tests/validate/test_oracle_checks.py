"""The oracle's own examination, with models that are a table."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledger.errors import BadInput
from validate.oracle_checks import loops, quality, reproduce, self_check
from validate.records import Answer


def answer(tokens: Sequence[int], gaps: Sequence[float], name: str = "a") -> Answer:
    """An answer to the prompt [2, 5]."""
    return Answer(
        name=name,
        ids=(2, 5),
        max_new=999,
        stop=False,
        tokens=tuple(tokens),
        gaps=tuple(gaps),
        tops=(1.0,) * len(tokens),
    )


@dataclass
class Picks:
    tokens: list[int]
    tops: list[float]


class Fixed:
    """Without a cache it says `tokens`, whatever came before; its logits are `logits`."""

    def __init__(self, tokens: Sequence[int] = (), logits: Sequence[float] = ()) -> None:
        self.tokens, self.logits = list(tokens), logits
        self.asked: list[tuple[list[int], int]] = []

    def forced(self, ids: Sequence[int], *, start: int = 0) -> Picks:
        self.asked.append((list(ids), start))
        return Picks(self.tokens, [1.25] * len(self.tokens))

    def last_logits(self, ids: Sequence[int]) -> Any:
        import torch

        self.asked.append((list(ids), len(ids) - 1))
        return torch.tensor(self.logits)


def test_the_self_check_asks_for_the_finished_sequence() -> None:
    model = Fixed([7, 8, 9])
    facts, failed = self_check(model, [answer([7, 8, 9], [1.0, 1.0, 1.0])])
    assert model.asked == [([2, 5, 7, 8], 1)]
    assert failed == []
    assert facts == {"positions": 3, "near_ties": 0, "max_logit_difference": 0.25, "failures": 0}


def test_a_broken_cached_path_is_caught_and_named() -> None:
    facts, failed = self_check(Fixed([7, 4, 9]), [answer([7, 8, 9], [1.0, 0.5, 1.0], "chat-x")])
    assert facts["failures"] == 1
    assert failed == [
        "oracle self-check: prompt chat-x, position 1: generate chose 8, a forward without cache 4, gap 0.500000"
    ]


def test_a_near_tie_is_counted_and_no_failure() -> None:
    facts, failed = self_check(Fixed([7, 4, 9]), [answer([7, 8, 9], [1.0, 9e-5, 1.0])])
    assert (facts["near_ties"], failed) == (1, [])


def test_a_good_oracle_is_described() -> None:
    facts, failed = quality([answer(range(40), [0.5] * 39 + [0.01]), answer([1, 2] * 20, [2.0] * 40)])
    assert failed == []
    assert facts["tokens"] == 80
    assert facts["distinct_tokens"] == 40
    assert facts["min_gap"] == 0.01
    assert facts["median_gap"] == 1.25
    assert facts["looping_share"] == 0.5


def test_a_flat_oracle_may_not_judge() -> None:
    _, failed = quality([answer(range(60), [0.049] * 60)])
    assert failed == ["oracle is flat: median gap 0.049000 logits; accepted: 0.05 or more"]


def test_an_oracle_that_says_one_thing_may_not_judge() -> None:
    _, failed = quality([answer([7] * 500, [3.0] * 500), answer(range(12), [3.0] * 12)])
    assert failed == ["oracle is monotone: one token makes 98% of its answers; accepted: 80% at most"]
    assert quality([answer([7] * 100, [3.0] * 100)])[1] == []


@given(st.lists(st.integers(0, 3), min_size=1, max_size=8), st.integers(32, 80))
def test_a_short_period_loops(period: list[int], length: int) -> None:
    assert loops([9, 8, 7, *(period * 80)[:length]])


def test_what_does_not_loop() -> None:
    assert not loops([1] * 31)
    assert not loops(list(range(9)) * 10)
    assert not loops([*[1] * 63, 2])


def case(**changes: Any) -> dict[str, Any]:
    """A reference with one case: logits 3, 2.5 for ids 1 and 0, after BOS 5 6 5."""
    one = {"name": "c", "length": 4, "top8_ids": [1, 0], "top8_logits": [3.0, 2.5], "greedy_ids": [1, 1]}
    return {"base_ids": [5, 6], "cases": [one | changes]}


def test_a_model_that_reproduces_the_reference() -> None:
    model = Fixed(logits=[2.51, 2.99, -4.0])
    facts, failed = reproduce(model, case(), bos=2)
    assert failed == []
    assert facts == {"cases": 1, "failures": 0, "tolerance": 2e-2}
    assert [ids for ids, _ in model.asked] == [[2, 5, 6, 5], [2, 5, 6, 5], [2, 5, 6, 5, 1]]


@pytest.mark.parametrize(
    ("logits", "changes", "said"),
    [
        ([2.5, 3.03, 0.0], {}, "logit of id 1 is 3.0300; published: 3.0"),
        ([2.5, 3.0, 2.9], {}, "logit of rank 2 is 2.9000; published: 2.5"),
        ([2.5, float("nan"), 0.0], {}, "logit of id 1 is nan"),
        ([2.5, 3.0, 0.0], {"greedy_ids": [1, 0]}, "greedy id 1 is 1; published: 0"),
    ],
)
def test_a_model_that_does_not(logits: list[float], changes: dict[str, Any], said: str) -> None:
    facts, failed = reproduce(Fixed(logits=logits), case(**changes), bos=2)
    assert facts["failures"] == len(failed) >= 1
    assert any(said in sentence and sentence.startswith("reference case c: ") for sentence in failed)


def test_a_reference_without_cases() -> None:
    with pytest.raises(BadInput, match="key 'cases' is missing"):
        reproduce(Fixed(), {"base_ids": [1]}, bos=2)

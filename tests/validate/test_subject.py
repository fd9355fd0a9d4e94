"""Every kind of fault is found by the check that is there for it, and a good subject passes."""

import json
import math
from pathlib import Path

import pytest

from ledger.errors import BadInput
from tests.serve.fakes import Context, manifest
from tests.serve.fakes import engine as serving
from tests.validate.fakes import STOP, FakeBatchedEngine, FakeEngine, Fault, ask, following, tell
from validate.findings import Report, sentences
from validate.records import Oracle, PromptSet
from validate.subject import Batched, examine

LENGTHS = (1, 5, 9, 13, 30)


def examined(
    engine: FakeEngine, asked: PromptSet, *, gap: float = 1.0, epsilon: float = 0.0, tolerance: float | None = None
) -> Report:
    """The report of an engine against the right answers; one of its log-probabilities is 0.25 off."""
    return judged(engine, asked, tell(asked, gap), epsilon=epsilon, tolerance=tolerance)


def judged(
    engine: FakeEngine, asked: PromptSet, oracle: Oracle, *, epsilon: float = 0.0, tolerance: float | None = None
) -> Report:
    """The report of an engine against any answers."""
    return examine(engine, asked, oracle, epsilon=epsilon, logprob_tolerance=tolerance, say=lambda _: None)


def test_a_right_subject_passes_and_everything_was_run() -> None:
    engine = FakeEngine()
    report = examined(engine, ask(LENGTHS))
    assert report.passed
    assert report.checks == {"oracle": 5, "after-another": 5, "repeated": 5, "heldout": 1}
    assert (report.prompts, report.tokens, report.agreed) == (5, 40, 40)
    assert (report.heldout_tokens, report.heldout_agreed) == (4, 4)


def test_each_prompt_runs_once_more_after_another_and_then_after_itself() -> None:
    asked = ask(LENGTHS)
    engine = FakeEngine()
    examined(engine, asked)
    runs = engine.requests[:-1]
    ids = [prompt.ids for prompt in asked.prompts]
    assert runs[:5] == ids
    repeats = runs[6:]
    assert sorted(repeats) == sorted(ids * 2)
    assert all(repeats[n] == repeats[n + 1] for n in range(0, 10, 2))
    assert all(len(runs[n]) >= len(runs[n + 1]) for n in range(6, 15))
    assert runs[5] != repeats[0]


def test_a_single_prompt_has_a_stranger_too() -> None:
    engine = FakeEngine()
    examined(engine, ask((4,)))
    first, stranger, second, third, _ = engine.requests
    assert first == second == third != stranger


@pytest.mark.parametrize(
    ("fault", "stop", "check"),
    [
        ("remembers", False, "after-another"),
        ("flickers", False, "repeated"),
        ("long", False, "oracle"),
        ("shorter", False, "oracle"),
        ("stops-always", False, "oracle"),
        ("ignores-stop", True, "oracle"),
        ("heldout", False, "heldout"),
    ],
)
def test_a_fault_is_found_by_its_check(fault: Fault, stop: bool, check: str) -> None:
    asked = ask(LENGTHS, max_new=40, stop=stop)
    assert examined(FakeEngine(), asked).passed
    assert any(STOP in answer.tokens[:-1] or stop for answer in tell(asked).answers)
    report = examined(FakeEngine(fault), asked)
    assert not report.passed
    assert {one["check"] for one in report.mismatches} == {check}


@pytest.mark.parametrize("stop", [False, True])
def test_a_subject_with_slots_answers_all_prompts_together(stop: bool) -> None:
    engine, asked = FakeBatchedEngine(3), ask(LENGTHS, max_new=40, stop=stop)
    report = examined(engine, asked)
    assert report.passed
    assert report.checks == {"oracle": 5, "after-another": 5, "repeated": 5, "together": 5, "heldout": 1}
    assert "together" in report.seconds
    assert engine.most == 3
    assert sorted(engine.requests[-6:-1]) == sorted(prompt.ids for prompt in asked.prompts)


def test_the_engine_that_ships_has_slots(tmp_path: Path) -> None:
    made_for = manifest(12, 4, 3, 7, batch=3)
    subject: Batched = serving(tmp_path, made_for, Context(made_for))
    assert isinstance(subject, Batched)
    assert subject.slots == 3


def test_a_single_slot_has_no_company() -> None:
    engine = FakeBatchedEngine(1, overhears=True)
    report = examined(engine, ask(LENGTHS))
    assert report.passed
    assert "together" not in report.checks
    assert engine.most == 0


def test_what_a_request_hears_of_its_neighbour_is_a_mismatch() -> None:
    asked = ask(LENGTHS)
    report = examined(FakeBatchedEngine(2, overhears=True), asked, gap=0.0, epsilon=1.0)
    third = {answer.name: answer.tokens[2] for answer in tell(asked).answers}
    # Answers of one length: the last prompt has no company.
    assert [(one["check"], one["prompt"], one["position"], one["got"]) for one in report.mismatches] == [
        ("together", "p0", 2, third["p1"]),
        ("together", "p2", 2, third["p3"]),
    ]
    assert not report.passed


def test_a_mismatch_says_where_and_what() -> None:
    asked = ask((4,))
    report = examined(FakeEngine(off_at=frozenset({6})), asked)
    history = list(asked.prompts[0].ids)
    for _ in range(2):
        history.append(following(history))
    expected = following(history)
    assert sentences(report) == (
        f"oracle: prompt p0, position 2: expected {expected}, got {(expected + 1) % 97}, gap 1.000000"
    )
    assert (report.tokens, report.agreed) == (3, 2)


def test_many_mismatches_are_cut_short() -> None:
    report = Report(
        mismatches=[{"check": "c", "prompt": "p", "position": 0, "expected": 1, "got": None, "gap": None}] * 12
    )
    assert sentences(report, limit=10).splitlines()[9:] == [
        "c: prompt p, position 0: expected 1, got None, gap none",
        "and 2 more",
    ]


@pytest.mark.parametrize(("epsilon", "passes"), [(0.5, True), (0.25, False), (0.0, False)])
def test_bfloat16_may_differ_where_the_oracle_is_undecided(epsilon: float, passes: bool) -> None:
    report = examined(FakeEngine(off_at=frozenset({6, 9})), ask((4, 5)), gap=0.25, epsilon=epsilon)
    assert report.passed is passes
    if passes:
        assert [(one["prompt"], one["position"]) for one in report.exemptions] == [
            ("p0", 2),
            ("p0", 5),
            ("p1", 1),
            ("p1", 4),
        ]
        assert report.facts()["agreement"] == 12 / 16


def test_state_is_no_rounding() -> None:
    report = examined(FakeEngine("remembers"), ask(LENGTHS), gap=0.0, epsilon=1.0)
    assert {one["check"] for one in report.mismatches} == {"after-another"}


def test_facts_are_json() -> None:
    facts = examined(FakeEngine("heldout"), ask(LENGTHS)).facts()
    assert json.loads(json.dumps(facts)) == facts
    differences = {"mean": 0.125, "max": 0.25}
    assert facts["heldout"] == {"tokens": 4, "agreement": 0.75, "logprob_difference": differences}


def test_an_oracle_asked_for_more_serves_for_less() -> None:
    oracle = tell(ask((4,), max_new=20))
    report = judged(FakeEngine(), ask((4,), max_new=3), oracle)
    assert (report.passed, report.tokens) == (True, 3)


@pytest.mark.parametrize(
    ("asked", "found"),
    [
        (ask((5,)), "no answer"),
        (ask((4,), stop=True), "no answer"),
        (ask((4,), max_new=9), "an answer of at most 8 tokens"),
    ],
)
def test_an_oracle_that_was_asked_something_else(asked: PromptSet, found: str) -> None:
    with pytest.raises(BadInput, match=f"prompt p0: the oracle has {found}; accepted: "):
        judged(FakeEngine(), asked, tell(ask((4,))))


def test_an_oracle_without_the_heldout_text() -> None:
    asked = ask((4,))
    oracle = tell(asked).model_copy(update={"heldout": ()})
    with pytest.raises(BadInput, match="window h0: the oracle has no answer"):
        judged(FakeEngine(), asked, oracle)


def test_heldout_text_that_was_not_asked_for_is_left_alone() -> None:
    asked = ask((4,)).model_copy(update={"heldout": ()})
    report = judged(FakeEngine("heldout"), asked, tell(ask((4,))))
    assert (report.passed, report.heldout_tokens) == (True, 0)


def test_a_logprob_that_is_no_number_still_makes_a_receipt() -> None:
    report = Report()
    report.compare_logprobs("h0", [-1.0, -2.0, None, -1.0], [math.nan, -math.inf, -1.0, -1.25], tolerance=0.5)
    assert report.logprob_differences == [1e9, 1e9, 0.25]
    assert json.loads(json.dumps(report.facts(), allow_nan=False))["heldout"]["logprob_difference"]["max"] == 1e9
    assert sentences(report) == (
        "heldout-logprobs: prompt h0, position 0: expected -1.000000 nats, got no finite number, "
        "accepted: at most 0.5 apart"
    )


@pytest.mark.parametrize(("tolerance", "passes"), [(None, True), (0.25, True), (0.2, False)])
def test_a_logprob_beyond_the_tolerance_is_a_mismatch(tolerance: float | None, passes: bool) -> None:
    report = examined(FakeEngine(), ask((4,)), tolerance=tolerance)
    assert report.passed is passes
    assert report.checks.get("heldout-logprobs", 0) == (tolerance is not None)
    assert [(one["check"], one["prompt"], one["position"]) for one in report.mismatches] == (
        [] if passes else [("heldout-logprobs", "h0", 0)]
    )


def test_the_farthest_logprob_stands_for_its_window() -> None:
    report = Report()
    report.compare_logprobs("h0", [-1.0, -2.0, -3.0], [-1.5, -2.75, -3.5], tolerance=0.25)
    (found,) = report.mismatches
    assert (found["position"], found["expected"], found["got"]) == (1, -2.0, -2.75)


def test_a_logprob_that_is_left_out_is_a_mismatch() -> None:
    report = Report()
    report.compare_logprobs("h0", [None, -1.0], [-1.0, None], tolerance=1.0)
    assert not report.passed


def test_suppressed_ids_alone_give_nothing_to_compare() -> None:
    report = Report()
    report.compare_logprobs("h0", [None, None], [-math.inf, -math.inf], tolerance=0.0)
    assert report.passed

"""Which prompt and how much of its answer a server is given to check itself with."""

from collections.abc import Sequence

from tests.validate.fakes import FakeEngine, ask, tell
from validate.findings import Report
from validate.records import Oracle, PromptSet
from validate.selfcheck import selfcheck
from validate.subject import examine


def passing(asked: PromptSet, oracle: Oracle, epsilon: float = 0.0, off_at: frozenset[int] = frozenset()) -> Report:
    engine = FakeEngine(off_at=off_at)
    report = examine(engine, asked, oracle, epsilon=epsilon, logprob_tolerance=None, say=lambda _: None)
    assert report.passed
    return report


def with_gaps(oracle: Oracle, *gaps: Sequence[float]) -> Oracle:
    """With the gaps of the first answers replaced."""
    changed = [
        answer.model_copy(update={"gaps": tuple(new)}) for answer, new in zip(oracle.answers, gaps, strict=False)
    ]
    return oracle.model_copy(update={"answers": (*changed, *oracle.answers[len(changed) :])})


def test_the_shortest_prompt_that_is_long_enough_with_its_first_tokens() -> None:
    asked = ask((30, 1, 5, 9, 12), max_new=40)
    oracle = tell(asked)
    known = selfcheck(asked, oracle, passing(asked, oracle), margin=0.5)
    prompt = asked.prompts[3]
    said = [token.id for token in FakeEngine().generate(prompt.ids, max_new=16, stop_ids=frozenset())]
    assert known == {"prompt": list(prompt.ids), "tokens": said}


def test_an_answer_is_cut_before_its_first_undecided_token() -> None:
    asked = ask((9,), max_new=12)
    oracle = with_gaps(tell(asked), [1.0] * 10 + [0.25, 1.0])
    report = passing(asked, oracle)
    for margin, tokens in ((0.5, 10), (0.25, 12)):
        known = selfcheck(asked, oracle, report, margin)
        assert known is not None
        assert known["tokens"] == list(oracle.answers[0].tokens[:tokens])


def test_a_longer_prompt_is_taken_where_a_shorter_is_undecided_too_soon() -> None:
    asked = ask((9, 20), max_new=12)
    oracle = with_gaps(tell(asked), [1.0] * 7 + [0.25] * 5)
    known = selfcheck(asked, oracle, passing(asked, oracle), margin=0.5)
    assert known is not None
    assert known["prompt"] == list(asked.prompts[1].ids)


def test_a_prompt_that_needed_an_exemption_is_passed_over() -> None:
    asked = ask((9, 30), max_new=12)
    oracle = with_gaps(tell(asked), [1.0] * 11 + [0.25])
    report = passing(asked, oracle, epsilon=0.5, off_at=frozenset({20}))
    assert {one["prompt"] for one in report.exemptions} == {"p0"}
    known = selfcheck(asked, oracle, report, margin=0.1)
    assert known is not None
    assert known["prompt"] == list(asked.prompts[1].ids)


def test_the_most_there_is_stands_in_for_enough() -> None:
    asked = ask((1, 5), max_new=12)
    oracle = with_gaps(tell(asked), [1.0, 0.0] * 6, [1.0, 1.0, 1.0, 0.0] * 3)
    known = selfcheck(asked, oracle, passing(asked, oracle), margin=0.5)
    assert known == {"prompt": list(asked.prompts[1].ids), "tokens": list(oracle.answers[1].tokens[:3])}


def test_nothing_is_recorded_of_an_oracle_that_was_never_decided() -> None:
    asked = ask((9, 20))
    oracle = tell(asked, gap=0.0)
    assert selfcheck(asked, oracle, passing(asked, oracle), margin=0.5) is None


def test_nothing_is_recorded_of_an_artifact_that_failed() -> None:
    asked = ask((4, 9))
    oracle = tell(asked)
    report = examine(
        FakeEngine(off_at=frozenset({6})), asked, oracle, epsilon=0.0, logprob_tolerance=None, say=lambda _: None
    )
    assert not report.passed
    assert selfcheck(asked, oracle, report, margin=0.5) is None

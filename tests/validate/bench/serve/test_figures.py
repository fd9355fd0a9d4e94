"""What marks, replies and figures amount to, on numbers that a person can check."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ledger.errors import BadInput
from validate.bench.serve import beside
from validate.bench.serve.decode import Marks, Side, marks, rate, steps
from validate.bench.serve.judge import THRESHOLDS, Threshold, table, verdicts
from validate.bench.serve.overload import judged
from validate.bench.serve.served import parse_metrics, served
from validate.bench.serve.wire import Reply

ANSWER: dict[str, Any] = {"choices": [{"finish_reason": "length"}]}
RETRY = {"retry-after": "1", "retry-after-ms": "250", "content-type": "application/json"}


def stream(*events: Any, sent: float = 0.0, done: bool = True) -> Reply:
    """A stream with an event a second."""
    parts = [(sent + place, b"data: " + json.dumps(event).encode() + b"\n\n") for place, event in enumerate(events, 1)]
    parts += [(sent + len(events), b"data: [DONE]\n\n")] if done else []
    return Reply(200, {"content-type": "text/event-stream; charset=utf-8"}, sent, 0.5, parts)


def refusal(status: int = 429, head_s: float = 0.01, milliseconds: str = "250") -> Reply:
    return Reply(status, RETRY | {"retry-after-ms": milliseconds}, 0.0, head_s, [(head_s, b"{}")])


def test_a_rate_is_over_the_window_of_all_streams() -> None:
    first: Marks = [(1.0, 1), (2.0, 2), (3.0, 4)]
    assert rate([first]) == 3 / 2
    assert rate([first, [(2.0, 1), (6.0, 3)]]) == (3 + 2) / 5


def test_only_single_tokens_are_steps() -> None:
    assert steps([(1.0, 1), (2.0, 2), (4.0, 4), (7.0, 5)]) == [1.0, 3.0]


def test_marks_are_those_of_the_rehearsal_and_the_finish_is_no_token() -> None:
    reply = stream("a", "b", "finish", sent=10.0)
    assert marks(reply, [1, 3, 3]) == [(1.0, 1), (2.0, 3)]
    with pytest.raises(ValueError, match="3 chunks and 2"):
        marks(reply, [1, 3])


@pytest.mark.parametrize(
    ("reply", "words"),
    [(stream("a", done=False), "without"), (refusal(), "status 429"), (refusal(500), "status 500")],
)
def test_marks_of_no_whole_answer(reply: Reply, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        marks(reply, [1])


def test_a_side_pools_its_rounds() -> None:
    side = Side()
    side.add([[(0.5, 1), (0.6, 2), (0.7, 3)]])
    side.add([[(0.3, 1), (0.4, 2), (0.6, 3)]])
    told = side.told()
    assert told["ttft_ms"] == 400.0
    assert told["step_ms"]["p50"] == 100.0
    assert (told["steps"], told["tok_s"]) == (4, 8.33)


def test_overload_is_judged_by_every_reply() -> None:
    whole = Reply(200, {"content-type": "application/json"}, 0.0, 9.0, [(9.0, json.dumps(ANSWER).encode())])
    cut = {"choices": [{"finish_reason": None}]}
    replies: list[Reply | str] = [
        whole,
        stream(cut, ANSWER),
        stream(cut),  # no finish
        stream(ANSWER, done=False),
        stream({"error": {}}),
        refusal(head_s=0.01),
        refusal(head_s=0.03),
        refusal(milliseconds="soon"),
        refusal(503),
        "ConnectionResetError",
    ]
    looks = [{"num_requests_waiting": waiting, "num_requests_running": 7.0 - waiting} for waiting in (3.0, 6.0)]
    found = judged(replies, [*looks, {"num_requests_waiting": 0.0, "num_requests_running": 1.0}], slots=2, queue=4)
    assert (found["offered"], found["broken"], found["broken_count"]) == (10, {"ConnectionResetError": 1}, 1)
    assert (found["admitted"], found["completed"]) == (5, 2)
    assert (found["refused"], found["refused_otherwise"]) == (4, 2)
    assert found["statuses"] == {"200": 5, "429": 3, "503": 1}
    assert found["refusal_ms"] == {"p50": 10.0, "p99": pytest.approx(29.4)}
    assert (found["queue_most"], found["queue_limit"], found["waiting_most"]) == (5.0, 4, 6.0)


def test_a_verdict_for_each_threshold_and_a_hole_is_a_miss() -> None:
    thresholds = (
        Threshold("a.x", "at least", 2),
        Threshold("a.y", "at most", "a.z"),
        Threshold("a.y", "equal to", 3),
        Threshold("b.x", "at most", 1),
        Threshold("a.x", "at most", "a.none"),
        Threshold("a", "at most", 1),
    )
    found = verdicts({"a": {"x": 2, "y": 3, "z": 2.5}}, thresholds)
    assert [one["holds"] for one in found] == [True, False, True, False, False, False]
    assert table(found[:2]).splitlines() == ["ok   a.x: 2, at least 2", "MISS a.y: 3, at most 2.5"]


def test_the_thresholds_are_those_of_the_issue() -> None:
    limits = {one.path: one.limit for one in THRESHOLDS}
    assert (limits["decode.one.ratio"], limits["decode.slots.ratio"]) == (0.95, 0.95)
    assert (limits["decode.eight.added_ms.p50"], limits["decode.eight.added_ms.p99"]) == (0.3, 2.0)
    assert (limits["overload.refusal_ms.p99"], limits["overload.rss_growth_mb"]) == (50.0, 20.0)
    assert limits["overload.completed"] == "overload.admitted"


def test_a_chat_is_told_by_its_content_and_the_servers_count() -> None:
    def said(text: str | None) -> dict[str, Any]:
        return {"choices": [{"delta": {} if text is None else {"content": text}}]}

    usage = {"choices": [], "usage": {"completion_tokens": 7}}
    reply = stream(said(None), said("a"), said("b"), said(None), usage, sent=5.0, done=False)
    assert beside.told(reply) == (2.0, 3.0, 7)
    with pytest.raises(ValueError, match="no content"):
        beside.told(stream(said(None), usage))


def test_metrics_by_name_and_labels() -> None:
    text = '# HELP x y\nneff_foundry_a 3.0\nneff_foundry_b_total{kind="x y"} 1e+06\nother nan?\n'
    assert parse_metrics(text) == {"a": 3.0, 'b_total{kind="x y"}': 1e6}


def test_a_server_that_ends_is_one_sentence(tmp_path: Path) -> None:
    command = ["python3", "-c", "import sys; print('warning'); sys.exit('no such artifact')"]
    with pytest.raises(BadInput, match="code 1 before it was ready: no such artifact"), served(command):
        pass

"""Rounds with workers that are no models: whose turn it is, what is counted, and what a failure becomes."""

from pathlib import Path
from typing import Any

import pytest

from ledger.errors import BadInput
from tests.validate.bench import fake_worker
from validate.bench.lines import Worker, WorkerFailed
from validate.bench.rounds import Plan, measure

MODULE = "tests.validate.bench.fake_worker"
PLAN = Plan(prompt=6, new=4, prefill=9)
WIDE = Plan(prompt=6, new=4, prefill=9, contexts=(2, 7), context_new=3, slots=2, slots_prompt=5, slots_new=2)


def run(log: Path, *, subject: str = "none", reference: str = "none", plan: Plan = PLAN) -> dict[str, Any]:
    """Two rounds."""
    log.touch()
    mine, theirs, probe = ((MODULE, str(log), fault) for fault in (subject, reference, "none"))
    return measure(mine, theirs, probe, lambda length: [2] * length, plan, rounds=2)


def test_everyone_takes_turns_until_far_behind(tmp_path: Path) -> None:
    run(tmp_path / "log")
    warm = ["subject 4 2", "eager 4 2", "sdpa 4 2", "static 4 2"]
    first, second = (
        [line for name in names for line in (f"{name} 6 4", f"{name} 9 1")]
        for names in (["subject", "eager", "sdpa", "static"], ["subject", "sdpa", "static"])
    )
    assert (tmp_path / "log").read_text().splitlines() == [*warm, *first, *second]


def test_contexts_and_slots_are_tasks_of_a_round(tmp_path: Path) -> None:
    measured = run(tmp_path / "log", plan=WIDE)
    turn = [line for line in (tmp_path / "log").read_text().splitlines() if line.startswith("subject")][1:6]
    assert turn == [f"subject {task}" for task in ("6 4", "9 1", "2 3", "7 3", "5+5 2")]
    assert measured["contexts"] == [
        {"tokens": tokens, "decode_tok_s": 4.0, "transformers_decode_tok_s": 2.0} for tokens in (2, 7)
    ]
    assert (measured["batch_tok_s"], measured["transformers_batch_tok_s"]) == (8.0, 4.0)


def test_one_slot_has_no_aggregate(tmp_path: Path) -> None:
    measured = run(tmp_path / "log")
    assert (measured["batch_tok_s"], measured["transformers_batch_tok_s"], measured["contexts"]) == (None, None, [])


def test_figures_are_those_of_the_clock(tmp_path: Path) -> None:
    measured = run(tmp_path / "log")
    assert (measured["ttft_ms"], measured["decode_tok_s"], measured["steps"]) == (1000.0, 4.0, 2 * 3)
    assert measured["prefill_tok_s"] == 9.0
    cells = measured["transformers"]
    assert {mode: cell["decode_tok_s"] for mode, cell in cells.items()} == {"eager": 1.0, "sdpa": 2.0, "static": 1.6}
    assert {mode: cell["steps"] for mode, cell in cells.items()} == {"eager": 3, "sdpa": 6, "static": 6}
    assert (measured["transformers_best"], measured["transformers_decode_tok_s"]) == ("sdpa", 2.0)
    assert measured["decode_vs_transformers"] == 2.0
    assert measured["load_s"] > 0
    assert measured["read_gb_s"] == 8.0


def test_a_mode_that_fails_is_a_cell_with_a_reason(tmp_path: Path) -> None:
    measured = run(tmp_path / "log", reference="sdpa")
    assert measured["transformers"]["sdpa"] == {"reason": "ValueError: sdpa cannot run"}
    assert measured["transformers_best"] == "static"
    assert (tmp_path / "log").read_text().count("sdpa") == 1


@pytest.mark.parametrize(
    ("fault", "reason"),
    [("load", "RuntimeError: no such"), ("dies", "the process ended with code 7: last words")],
)
def test_transformers_that_cannot_run_at_all(tmp_path: Path, fault: str, reason: str) -> None:
    measured = run(tmp_path / "log", reference=fault)
    assert measured["transformers"]["eager"] == {"reason": reason}
    assert measured["transformers_best"] is None
    assert measured["decode_vs_transformers"] is None
    assert measured["decode_tok_s"] > 0


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        ("load", "cannot run: RuntimeError: no such"),
        ("subject", "cannot be timed: ValueError: subject cannot run"),
        ("dies", "cannot be timed: the process ended with code 7: last words"),
        ("short", "cannot be timed: made 3 tokens of 4"),
    ],
)
def test_a_subject_that_cannot_run_is_an_error(tmp_path: Path, fault: str, said: str) -> None:
    with pytest.raises(BadInput, match=f"--artifact .*log {said}"):
        run(tmp_path / "log", subject=fault)


def test_the_peak_is_the_workers_own(tmp_path: Path) -> None:
    # As large as what the worker allocates: a peak inherited from this process would show in the small worker.
    here = bytearray(2 * fake_worker.MEMORY)
    peaks = {}
    for fault in ("none", "memory"):
        with Worker(MODULE, [str(tmp_path / "log"), fault]) as worker:
            worker.ask(prompts=[[2]], steps=1)
            peaks[fault] = worker.facts["peak_rss_mb"]
    assert len(here) / 1e6 > peaks["memory"] - peaks["none"] > 0.9 * fake_worker.MEMORY / 1e6
    assert peaks["none"] < len(here) / 1e6


def test_a_worker_that_is_gone_says_so_again(tmp_path: Path) -> None:
    with Worker(MODULE, [str(tmp_path / "log"), "dies"]) as worker:
        for _ in range(2):
            with pytest.raises(WorkerFailed, match="ended with code 7"):
                worker.ask(prompts=[[2]], steps=1)

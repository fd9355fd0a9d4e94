"""One question: whatever its process does is an answer, and nothing of it is left."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest

from validate.probe.asking import ask, environment
from validate.probe.question import Question


def _question(name: str, seconds: float = 60) -> Question:
    return Question(name, f"{name}?", "0", f"tests.validate.probe.behaviours:{name}", seconds)


def test_an_answer_with_its_evidence_from_a_folder_and_cache_of_its_own(tmp_path: Path) -> None:
    record = ask(_question("fine"), tmp_path, 100)
    assert record.answer == "yes" and record.error is None
    assert record.evidence == {"cwd": str(tmp_path / "fine"), "cache": str(tmp_path / "fine/cache")}
    assert 0 < record.seconds < 60


@pytest.mark.parametrize(
    ("name", "answer", "error"),
    [
        ("crash", "crashed", "the process ended with signal SIGSEGV and no answer"),
        ("leave", "crashed", "the process ended with exit code 3 and no answer"),
        ("raise_it", "failed", "ValueError: first line"),
    ],
)
def test_what_goes_wrong_is_an_answer(tmp_path: Path, name: str, answer: str, error: str) -> None:
    record = ask(_question(name), tmp_path, 100)
    assert (record.answer, record.error) == (answer, error)
    if name == "leave":
        assert record.evidence["log"] == ["last words"]
    if name == "raise_it":
        assert record.evidence["traceback"][-2:] == ["ValueError: first line", "second line"]
    json.dumps(record.as_json(), allow_nan=False)


def test_an_answer_before_a_crash_at_the_end_stands_with_how_it_ended(tmp_path: Path) -> None:
    record = ask(_question("answer_then_crash"), tmp_path, 100)
    assert (record.answer, record.evidence, record.error) == ("yes", {"ended": "code -6"}, None)


def test_a_hang_ends_at_its_limit_with_everything_it_started(tmp_path: Path) -> None:
    record = ask(_question("hang", seconds=3), tmp_path, 100)
    assert (record.answer, record.error) == ("timed out", "did not end within 3 s")
    for pid in (tmp_path / "hang/pids").read_text().split():
        assert not _runs(int(pid))


def test_a_question_that_the_budget_cuts_off_is_not_reached(tmp_path: Path) -> None:
    record = ask(_question("hang", seconds=60), tmp_path, 3)
    assert (record.answer, record.error) == ("not reached", "the budget ended 3 s after it was asked")


def test_the_interpreters_programs_are_on_path_and_after_those_of_the_caller(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    beside = str(Path(sys.executable).parent)
    monkeypatch.setenv("PATH", "/first:/second")
    assert environment(tmp_path)["PATH"] == f"/first:/second:{beside}"
    monkeypatch.setenv("PATH", f"{beside}:/second")
    assert environment(tmp_path)["PATH"] == f"{beside}:/second"


def test_one_core_unless_the_caller_chose(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NEURON_RT_NUM_CORES", raising=False)
    monkeypatch.delenv("NEURON_RT_VISIBLE_CORES", raising=False)
    assert environment(tmp_path)["NEURON_RT_NUM_CORES"] == "1"
    monkeypatch.setenv("NEURON_RT_VISIBLE_CORES", "1")
    assert "NEURON_RT_NUM_CORES" not in environment(tmp_path)


def _runs(pid: int) -> bool:
    """Whether the process is there; a zombie is not."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z" and os.path.exists(f"/proc/{pid}")  # noqa: PTH110

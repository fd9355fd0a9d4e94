"""A run: what is written, what a kill leaves, when it stops."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from ledger.errors import GateFailed
from tests.standins import environment
from validate.probe.question import Question
from validate.probe.run import run

ROOT = Path(__file__).parents[3]


def _question(name: str, *, device: bool = True, seconds: float = 60) -> Question:
    return Question(name, f"{name}?", "0", f"tests.validate.probe.behaviours:{name}", seconds, device)


def _run(out: Path, tiny: str, names: list[str], budget: float = 100, *, device: bool = True) -> list[str]:
    said: list[str] = []
    run(out, _question(tiny), [_question(name, device=device) for name in names], budget, said.append)
    return said


def _answers(out: Path) -> dict[str, str]:
    document: dict[str, Any] = json.loads(out.read_text())
    return {one["id"]: one["answer"] for one in document["answers"]}


def test_every_question_is_in_the_file_and_the_part_is_gone(tmp_path: Path) -> None:
    out = tmp_path / "new/probe.json"
    said = _run(out, "fine", ["crash", "no"])
    document = json.loads(out.read_text())
    assert list(document) == ["answers", "host", "started"]
    assert document["host"]["packages"]["torch"] and document["started"].endswith("+00:00")
    assert [sorted(one) for one in document["answers"]] == [
        ["answer", "error", "evidence", "id", "question", "seconds", "section"]
    ] * 3
    assert _answers(out) == {"fine": "yes", "crash": "crashed", "no": "no"}
    assert [line.partition(" (")[0] for line in said] == ["fine: yes", "crash: crashed", "no: no"]
    assert sorted(path.name for path in out.parent.iterdir()) == ["probe.json", "probe.json.work"]


def test_it_stops_with_one_sentence_when_the_first_question_fails(tmp_path: Path) -> None:
    out = tmp_path / "probe.json"
    with pytest.raises(GateFailed) as caught:
        _run(out, "raise_it", ["fine"])
    sentence = str(caught.value)
    assert sentence.startswith("the smallest graph (x + 1) does not work here: failed, ValueError: first line")
    assert "\n" not in sentence and _answers(out) == {"raise_it": "failed"}


def test_who_holds_the_cores_is_in_the_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = tmp_path / "host"
    (root / "cores").mkdir(parents=True)
    monkeypatch.setenv("STANDIN_ROOT", str(root))
    monkeypatch.setenv("PATH", environment()["PATH"])
    with (root / "cores/0").open("w") as held:
        held.write(str(os.getpid()))
        held.flush()
        with pytest.raises(GateFailed, match=f"; NeuronCores are held by process {os.getpid()} "):
            _run(tmp_path / "probe.json", "raise_it", ["fine"])
    with pytest.raises(GateFailed) as caught:
        _run(tmp_path / "probe.json", "raise_it", ["fine"])
    assert "held by" not in str(caught.value)


def test_questions_that_need_no_device_are_asked_all_the_same(tmp_path: Path) -> None:
    out = tmp_path / "probe.json"
    _run(out, "raise_it", ["no"], device=False)
    assert _answers(out) == {"raise_it": "failed", "no": "no"}


def test_what_the_budget_has_no_room_for_is_not_reached(tmp_path: Path) -> None:
    out = tmp_path / "probe.json"
    _run(out, "fine", ["hang", "no"], budget=8)
    assert _answers(out) == {"fine": "yes", "hang": "not reached", "no": "not reached"}
    assert "were left" in json.loads(out.read_text())["answers"][2]["error"]


def test_a_budget_too_small_for_the_first_question_is_said(tmp_path: Path) -> None:
    with pytest.raises(GateFailed, match=r"was not through: the budget ended 1 s after.*accepted: a larger --budget"):
        _run(tmp_path / "probe.json", "hang", ["no"], budget=1.4)


@pytest.mark.parametrize(("how", "code"), [("kill_parent", -9), ("stop_parent", 143)])
def test_a_kill_keeps_what_was_answered_and_never_a_partial_file(tmp_path: Path, how: str, code: int) -> None:
    out = tmp_path / "probe.json"
    script = (
        "import signal; from pathlib import Path; from validate.probe.__main__ import say, stop;"
        "from tests.validate.probe.test_run import _question; from validate.probe.run import run;"
        "signal.signal(signal.SIGTERM, stop);"
        f"run(Path({str(out)!r}), _question('fine'), [_question('no'), _question({how!r}), _question('no')], 100, say)"
    )
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == code, done.stderr
    assert not out.exists()
    head, *lines = map(json.loads, (tmp_path / "probe.json.part").read_text().splitlines())
    assert sorted(head) == ["host", "started"]
    assert [(one["id"], one["answer"]) for one in lines] == [("fine", "yes"), ("no", "no")]
    if how == "stop_parent":
        pid = (tmp_path / "probe.json.work/shared/pid").read_text()
        assert not Path(f"/proc/{pid}").exists()
    _run(out, "fine", ["no"])
    assert _answers(out) == {"fine": "yes", "no": "no"} and not (tmp_path / "probe.json.part").exists()

"""One question asked: a process of its own, with its own folder, cache, log and time limit."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ledger.sources import ROOT
from validate.probe.child import FILE
from validate.probe.question import Question

NOT_REACHED = "not reached"
_LOG_LINES = 30


@dataclass(frozen=True)
class Record:
    """What becomes of a question, as it is in the file."""

    id: str
    question: str
    section: str
    answer: str
    evidence: dict[str, Any]
    seconds: float
    error: str | None

    def as_json(self) -> dict[str, Any]:
        """The record for machines."""
        return asdict(self)


def not_reached(question: Question, why: str) -> Record:
    """The record of a question that was not asked, or not to its end."""
    return Record(question.id, question.question, question.section, NOT_REACHED, {}, 0.0, why)


def ask(question: Question, work: Path, left: float) -> Record:
    """Ask in a child process, for at most what the question may take and `left` seconds."""
    own, shared = work / question.id, work / "shared"
    own.mkdir(parents=True, exist_ok=True)
    shared.mkdir(exist_ok=True)
    limit = min(question.seconds, left)
    started = time.monotonic()
    code = _run(question.call, own, shared, limit)
    seconds = round(time.monotonic() - started, 3)
    if code is None and limit < question.seconds:
        return not_reached(question, f"the budget ended {limit:.0f} s after it was asked")
    answer, evidence, error = _told(own, code, limit)
    if error:
        evidence = evidence | {"log": _tail(own / "log.txt")}
    return Record(question.id, question.question, question.section, answer, evidence, seconds, error)


def environment(own: Path) -> dict[str, str]:
    """The child's variables: target, a cache of its own, one core, the interpreter's programs on PATH."""
    variables = dict(os.environ)
    path = variables.get("PATH", os.defpath).split(os.pathsep)
    beside = str(Path(sys.executable).parent)
    variables["PATH"] = os.pathsep.join(path if beside in path else [*path, beside])
    variables["PYTHONPATH"] = os.pathsep.join(filter(None, [str(ROOT), variables.get("PYTHONPATH")]))
    # No TMPDIR of its own: a socket in a long path is refused.
    variables |= {"NEURON_PLATFORM_TARGET_OVERRIDE": "inf2", "NEURON_COMPILE_CACHE_URL": str(own / "cache")}
    if "NEURON_RT_VISIBLE_CORES" not in variables:
        variables.setdefault("NEURON_RT_NUM_CORES", "1")
    return variables


def _run(call: str, own: Path, shared: Path, limit: float) -> int | None:
    """The child's exit code; None when it was stopped at the limit. Whatever it started ends with it."""
    command = [sys.executable, "-m", "validate.probe.child", call, str(own), str(shared)]
    with (own / "log.txt").open("wb") as log:
        process = subprocess.Popen(
            command,
            # neuronx-cc leaves files where it runs.
            cwd=own,
            env=environment(own),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            return process.wait(timeout=limit)
        except subprocess.TimeoutExpired:
            return None
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def _told(own: Path, code: int | None, limit: float) -> tuple[str, dict[str, Any], str | None]:
    try:
        told = json.loads((own / FILE).read_bytes())
    except FileNotFoundError:
        if code is None:
            return "timed out", {}, f"did not end within {limit:.0f} s"
        how = f"signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
        return "crashed", {}, f"the process ended with {how} and no answer"
    evidence: dict[str, Any] = told["evidence"]
    if code != 0:
        # The answer is there, and how the process ended is a part of it: a runtime may crash while it closes.
        evidence = evidence | {"ended": "stopped at the limit" if code is None else f"code {code}"}
    return told["answer"], evidence, told["error"]


def _tail(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8", errors="replace").splitlines()[-_LOG_LINES:]

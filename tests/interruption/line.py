"""A run of the line in a folder of its own: started, killed at a moment, finished."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import time
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from ledger.sources import ROOT

# The modules that rules start.
STAGES = {
    "recipes.fetch": "fetch",
    "recipes.lower": "lower",
    "recipes.weights": "weights",
    "recipes.tables": "tables",
    "recipes.compile": "compile",
    "recipes.assemble": "assemble",
    "validate.prompts": "prompts",
    "validate.oracle": "oracle",
    "validate.parity": "parity",
    "validate.bench.stage": "bench",
    "publish.package": "package",
    "validate.summary": "summary",
    "validate.report": "report",
}
_LONGEST_DEATH = 60_000  # ms
_LOOK = 0.1  # seconds between two looks for a stage


@dataclass(frozen=True)
class Kill:
    """A moment: so many seconds after the start of a run, or after a stage is seen at work, whichever comes first."""

    seconds: float
    stage: str
    within: float

    def comes(self, process: subprocess.Popen[bytes]) -> bool:
        """Wait for the moment; False when the run ends before."""
        end, seen = time.monotonic() + self.seconds, False
        while (left := end - time.monotonic()) > 0:
            if not seen and self.stage in _at_work(process.pid):
                end, seen = min(end, time.monotonic() + self.within), True
            with suppress(subprocess.TimeoutExpired):
                process.wait(left if seen else min(left, _LOOK))
                return False
        return True


@dataclass
class Line:
    """The line for `config` in `folder`; both results and snakemake's own files are in there."""

    folder: Path
    config: Path
    at_work: Counter[str] = field(default_factory=Counter)
    unlocked: int = 0

    def recover(self) -> None:
        """What the Makefile does before each run."""
        command = [sys.executable, "-m", "recipes.recover", str(self.config)]
        environment = os.environ | {"PYTHONPATH": str(ROOT)}
        done = subprocess.run(command, cwd=self.folder, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        self.unlocked += "removed the lock" in done.stdout

    def run(self, kill: Kill | None = None) -> bool:
        """Run as the Makefile does; True when the run came to its end, False when it was killed before."""
        self.recover()
        log = self.folder / "run.log"
        with log.open("wb") as output:
            process = subprocess.Popen(
                self._command(),
                cwd=ROOT,
                env=os.environ | {"PYTHONUNBUFFERED": "1"},
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
            if kill and kill.comes(process):
                self._kill(process)
                return False
            code = process.wait()
        assert code == 0, log.read_text(errors="replace")[-3000:]
        return True

    def _command(self) -> list[str]:
        flags = ["--snakefile", str(ROOT / "Snakefile"), "--directory", str(self.folder)]
        profile = ["--workflow-profile", str(ROOT / "profiles" / "default")]
        return [sys.executable, "-m", "snakemake", *flags, *profile, "--configfile", str(self.config)]

    def _kill(self, process: subprocess.Popen[bytes]) -> None:
        """SIGKILL for the whole process group, and no return before all of it is dead."""
        group, stages = _members(process.pid), _at_work(process.pid)
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        self.at_work.update(stages or {"none"})
        for one in group:
            _await_death(one.pid)


def _members(group: int) -> list[psutil.Process]:
    found = []
    for process in psutil.process_iter():
        try:
            if os.getpgid(process.pid) == group:
                found.append(process)
        except ProcessLookupError:
            continue
    return found


def _at_work(group: int) -> set[str]:
    return {stage for one in _members(group) if (stage := _stage(one))}


def _stage(process: psutil.Process) -> str | None:
    try:
        words = process.cmdline()[1:3]
    except psutil.Error:
        return None
    return STAGES.get(words[1]) if len(words) == 2 and words[0] == "-m" else None


def _await_death(pid: int) -> None:
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    try:
        # Readable once it has ended, also where nobody has asked how.
        poll = select.poll()
        poll.register(descriptor, select.POLLIN)
        assert poll.poll(_LONGEST_DEATH), f"process {pid} outlives SIGKILL"
    finally:
        os.close(descriptor)

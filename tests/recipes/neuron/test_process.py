"""Builds beside each other: the store's lock, and one compiler at a time."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from ledger.sources import ROOT
from ledger.store import Store
from recipes.neuron.environment import workspace
from recipes.neuron.process import building, ending, one_at_a_time, sharing

# Fails if another of its kind is at work; leaves its arguments in a file.
_COMPILER = """\
#!{python}
import os, pathlib, subprocess, sys, time
folder = pathlib.Path({folder!r})
if "again" in sys.argv:
    subprocess.run(["neuronx-cc", "inner"], check=True)
if "inner" not in sys.argv:
    (folder / "busy").mkdir()
    time.sleep(0.2)
    (folder / "busy").rmdir()
print(sys.argv[1:])
sys.exit(int(os.environ.get("STATUS", 0)))
"""


@pytest.fixture
def real(tmp_path: Path) -> Path:
    """A folder with a compiler that cannot stand a second one beside it."""
    folder = tmp_path / "real"
    folder.mkdir()
    (folder / "neuronx-cc").write_text(_COMPILER.format(python=sys.executable, folder=str(tmp_path)))
    (folder / "neuronx-cc").chmod(0o755)
    return folder


def _together(path: str, *commands: str, **env: str) -> list[tuple[int, str]]:
    """Status and output of shell commands that run at the same time, as libneuronxla starts its compilers."""

    def run(command: str) -> tuple[int, str]:
        env_of_it = os.environ | {"PATH": path} | env
        done = subprocess.run(
            command, shell=True, env=env_of_it, text=True, capture_output=True, check=False, timeout=30
        )
        return done.returncode, done.stdout

    with ThreadPoolExecutor() as pool:
        return list(pool.map(run, commands))


def test_compilers_run_one_after_the_other(real: Path, tmp_path: Path) -> None:
    path = os.pathsep.join([str(real), os.environ["PATH"]])
    shimmed = os.pathsep.join([str(one_at_a_time(tmp_path, path)), path])
    commands = [f"neuronx-cc compile --name={number}" for number in range(3)]
    assert any(status for status, _ in _together(path, *commands)), "the compiler must notice a second one"
    shutil.rmtree(tmp_path / "busy", ignore_errors=True)
    assert _together(shimmed, *commands) == [(0, f"['compile', '--name={number}']\n") for number in range(3)]


def test_the_shim_hands_on_the_status_and_lets_a_compiler_call_itself(real: Path, tmp_path: Path) -> None:
    path = os.pathsep.join([str(real), os.environ["PATH"]])
    shimmed = os.pathsep.join([str(one_at_a_time(tmp_path, path)), path])
    assert _together(shimmed, "neuronx-cc", STATUS="70")[0][0] == 70
    ((status, said),) = _together(shimmed, "neuronx-cc again")
    assert (status, said) == (0, "['inner']\n['again']\n")


# Imported before anything else: the build starts compilers, one in a session of its own, and is killed or waits.
_BUILD = """\
import os, signal, subprocess, sys, time
if "recipes.neuron.build" in sys.orig_argv:
    left = [subprocess.Popen(["sleep", "600"], start_new_session=own) for own in (False, True)]
    print(os.getpid(), *(one.pid for one in left), flush=True)
    os.kill(os.getpid(), {signal})
    time.sleep(600)
"""


def _at_work(pid: str) -> bool:
    """Whether a process is there; one that is dead, and not yet collected by whoever inherited it, is not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def test_a_killed_build_leaves_no_compiler_at_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "sitecustomize.py").write_text(_BUILD.format(signal=signal.SIGKILL))
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    store = Store(tmp_path / "store")
    with sharing(store, alone=False) as lock, workspace(store) as space:
        with building(space, space.work / "job.json", lock, serial=False) as (status, log):
            assert (status, len(log.split())) == (-signal.SIGKILL, 3)
            assert not any(map(_at_work, log.split()))
            assert (space.work / "compiler.log").is_file()
        assert not space.work.exists()


# A stage as it runs, but for what it would ask of the build.
_STAGE = """\
import sys
from pathlib import Path
from ledger.errors import run_cli
from ledger.stage import Job
from ledger.store import Store
from recipes.neuron import stage
stage._job_file = lambda job, space: space.work / "job.json"
run_cli(lambda: stage.work(Job(None, {}, Store(Path(sys.argv[1])))))
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT, signal.SIGKILL])
def test_a_stage_that_is_ended_leaves_nothing(tmp_path: Path, number: signal.Signals) -> None:
    (tmp_path / "sitecustomize.py").write_text(_BUILD.format(signal=0))
    store, links = tmp_path / "store", set(Path(tempfile.gettempdir()).glob("neff-*"))
    env = os.environ | {"PYTHONPATH": os.pathsep.join([str(tmp_path), str(ROOT)])}
    command = [sys.executable, "-c", _STAGE, str(store)]
    with subprocess.Popen(command, env=env, stderr=subprocess.PIPE, text=True) as started:
        log = _soon(lambda: next((one for one in store.glob("tmp/neuron-*/compiler.log") if one.read_text()), None))
        pids = log.read_text().split()
        # The build, not only the stage, keeps out a build that wants to be alone.
        assert _at_work(pids[0]) and str(store / "neuron.lock") in _open(pids[0])
        started.send_signal(number)
        assert started.stderr
        said = started.stderr.read()
    # Granted once nothing of the build is left: a killed stage does not wait for that itself.
    with sharing(Store(store), alone=True):
        assert not any(map(_at_work, pids))
        assert list((store / "tmp").iterdir()) == []
    if number == signal.SIGKILL:
        assert (started.returncode, said) == (-number, "")
    else:
        assert started.returncode == 128 + number
        assert said == f"error: ended by {number.name}; nothing of the build is left\n"
    assert set(Path(tempfile.gettempdir()).glob("neff-*")) <= links


def test_what_nohup_ignores_stays_ignored() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with ending():
            os.kill(os.getpid(), signal.SIGHUP)
            with pytest.raises(SystemExit) as caught:
                os.kill(os.getpid(), signal.SIGTERM)
        assert caught.value.code == 128 + signal.SIGTERM
        assert signal.getsignal(signal.SIGHUP) == signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)


def _soon(look: Callable[[], Path | None]) -> Path:
    """What `look` finds within a minute."""
    for _ in range(1200):
        if found := look():
            return found
        time.sleep(0.05)
    raise AssertionError


def _open(pid: str) -> list[str]:
    return [str(one.readlink()) for one in Path(f"/proc/{pid}/fd").iterdir()]


def test_builds_share_and_a_retry_is_alone(tmp_path: Path) -> None:
    store, order = Store(tmp_path), list[str]()
    inside, leave = threading.Event(), threading.Event()

    def hold() -> None:
        with sharing(store, alone=False):
            inside.set()
            leave.wait(20)
            order.append("shared out")

    def alone() -> None:
        with sharing(store, alone=True):
            order.append("alone in")

    first, second = threading.Thread(target=hold), threading.Thread(target=alone)
    first.start()
    inside.wait(20)
    with sharing(store, alone=False):
        order.append("shared in")
    second.start()
    second.join(0.3)
    assert order == ["shared in"]
    leave.set()
    first.join()
    second.join()
    assert order == ["shared in", "shared out", "alone in"]

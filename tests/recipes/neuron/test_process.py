"""Builds beside each other: the store's lock, and one compiler at a time."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from ledger.store import Store
from recipes.neuron.environment import workspace
from recipes.neuron.process import one_at_a_time, run_build, sharing

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


# Python imports it before anything else: the build starts a compiler and is killed.
_KILLED = """\
import os, signal, subprocess, sys
if "recipes.neuron.build" in sys.orig_argv:
    left = subprocess.Popen(["sleep", "600"])
    print("left", left.pid, flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_killed_build_leaves_no_compiler_at_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "sitecustomize.py").write_text(_KILLED)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    with workspace(Store(tmp_path / "store")) as space:
        status, log = run_build(space, space.work / "job.json", serial=False)
    assert (status, log.split()[0]) == (-signal.SIGKILL, "left")
    left = Path(f"/proc/{log.split()[1]}/stat")
    # Gone, or dead and not yet collected by whoever inherited it.
    assert not left.exists() or left.read_text().split()[2] in "ZX"


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

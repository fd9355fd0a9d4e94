"""A build process: started in its own folders, ended with its stage, and beside others only while memory lasts.

Builds of one store hold a lock together. One that a full memory has killed runs again holding it alone, and with one
compiler at a time: the SDK starts one per graph or rank at once.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn

from ledger.store import Store
from recipes.neuron import keeper
from recipes.neuron.environment import Workspace, variables

COMPILER = "neuronx-cc"
LOG = "compiler.log"
# The compiler's own logs go to files in its folders, and say what its caller leaves out.
_LOGS = "log-neuron-cc.txt"
_LONGEST = 1 << 20  # bytes of the end of each such file
_ENDS = (signal.SIGTERM, signal.SIGHUP, signal.SIGINT)

# The lock stays with the descriptor through exec, and with every process that the compiler starts. A compiler that
# calls itself has it already.
_SHIM = """\
#!{python} -IS
import fcntl, os, sys
if not os.environ.get("NEFF_ONE_COMPILER"):
    lock = os.open({lock!r}, os.O_RDWR | os.O_CREAT, 0o600)
    fcntl.flock(lock, fcntl.LOCK_EX)
    os.set_inheritable(lock, True)
    os.environ["NEFF_ONE_COMPILER"] = "1"
os.execv({real!r}, [{real!r}, *sys.argv[1:]])
"""


@contextmanager
def ending() -> Iterator[None]:
    """A signal to end becomes SystemExit, with one sentence, so that a build is ended and its folders are removed."""

    def end(number: int, frame: FrameType | None) -> NoReturn:
        # What follows takes a moment, and must not be broken off by the next signal.
        for one in before:
            signal.signal(one, signal.SIG_IGN)
        os.write(2, f"error: ended by {signal.Signals(number).name}; nothing of the build is left\n".encode())
        raise SystemExit(128 + number)

    before: dict[signal.Signals, Any] = {}
    try:
        if threading.current_thread() is threading.main_thread():
            for number in _ENDS:
                # Ignored from outside: nohup.
                if signal.getsignal(number) != signal.SIG_IGN:
                    before[number] = signal.signal(number, end)
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def sharing(store: Store, *, alone: bool) -> Iterator[int]:
    """Wait for, and hold, the store's lock of builds: together with others, or alone. Yields its descriptor."""
    with (store.root / "neuron.lock").open("a") as file:
        fcntl.flock(file, fcntl.LOCK_EX if alone else fcntl.LOCK_SH)
        yield file.fileno()


@contextmanager
def building(space: Workspace, job_file: Path, lock: int, *, serial: bool) -> Iterator[tuple[int, str]]:
    """Build what `job_file` asks for; yields the exit status as Python gives it, and the whole log.

    The build holds `lock` too, so that it is never beside another of its store that wants to be alone. However this
    process ends, nothing of the build is left; afterwards, and so in good time, the files in `space` are gone.
    """
    env = variables(space)
    if serial:
        env["PATH"] = os.pathsep.join([str(one_at_a_time(space.work, env["PATH"])), env["PATH"]])
    log = space.work / LOG
    command = [sys.executable, "-m", "recipes.neuron.build", str(job_file)]
    with (
        log.open("wb") as output,
        subprocess.Popen(
            [sys.executable, "-IS", keeper.__file__, str(space.work), *command],
            cwd=space.work,
            env=env,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=output,
            process_group=0,
            pass_fds=[lock],
        ) as kept,
    ):
        assert kept.stdin and kept.stdout
        try:
            if said := kept.stdout.readline():
                status = int(said)
            else:
                # Its group outlives it only if somebody killed it.
                os.killpg(kept.pid, signal.SIGKILL)
                status = kept.wait()
            with log.open("ab") as more:
                for file in sorted(space.work.rglob(_LOGS)):
                    more.write(f"\n== {file.relative_to(space.work)}\n".encode() + file.read_bytes()[-_LONGEST:])
            yield status, log.read_text(errors="backslashreplace")
        finally:
            kept.stdin.close()
            kept.wait()


def one_at_a_time(work: Path, path: str) -> Path:
    """A folder for the front of PATH whose neuronx-cc waits for any other that was started through it."""
    folder = work / "one-compiler"
    folder.mkdir()
    if real := shutil.which(COMPILER, path=path):
        shim = folder / COMPILER
        shim.write_text(_SHIM.format(python=sys.executable, lock=str(folder / "lock"), real=real))
        shim.chmod(0o755)
    return folder

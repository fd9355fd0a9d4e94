"""A build process: started in its own folders, its output kept, and beside others only while memory lasts.

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
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from ledger.store import Store
from recipes.neuron.environment import Workspace, variables

COMPILER = "neuronx-cc"
LOG = "compiler.log"
# The compiler's own logs go to files in its folders, and say what its caller leaves out.
_LOGS = "log-neuron-cc.txt"
_LONGEST = 1 << 20  # bytes of the end of each such file

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
def sharing(store: Store, *, alone: bool) -> Iterator[None]:
    """Wait for, and hold, the store's lock of builds: together with others, or alone."""
    with (store.root / "neuron.lock").open("a") as file:
        fcntl.flock(file, fcntl.LOCK_EX if alone else fcntl.LOCK_SH)
        yield


def run_build(space: Workspace, job_file: Path, *, serial: bool) -> tuple[int, str]:
    """Build what `job_file` asks for; returns the exit status as Python gives it, and the whole log."""
    env = variables(space)
    if serial:
        env["PATH"] = os.pathsep.join([str(one_at_a_time(space.work, env["PATH"])), env["PATH"]])
    log = space.work / LOG
    with log.open("wb") as output:
        build = subprocess.Popen(
            [sys.executable, "-m", "recipes.neuron.build", str(job_file)],
            cwd=space.work,
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            process_group=0,
        )
        try:
            status = build.wait()
        finally:
            # A build that is killed leaves its compilers at work, in the memory that the next one needs.
            with suppress(ProcessLookupError):
                os.killpg(build.pid, signal.SIGKILL)
    with log.open("ab") as output:
        for file in sorted(space.work.rglob(_LOGS)):
            output.write(f"\n== {file.relative_to(space.work)}\n".encode() + file.read_bytes()[-_LONGEST:])
    return status, log.read_text(errors="replace")


def one_at_a_time(work: Path, path: str) -> Path:
    """A folder for the front of PATH whose neuronx-cc waits for any other that was started through it."""
    folder = work / "one-compiler"
    folder.mkdir()
    if real := shutil.which(COMPILER, path=path):
        shim = folder / COMPILER
        shim.write_text(_SHIM.format(python=sys.executable, lock=str(folder / "lock"), real=real))
        shim.chmod(0o755)
    return folder

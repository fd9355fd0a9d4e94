"""Questions that behave badly, asked by tests in children of their own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from validate.probe.question import Answer, Work


def fine(work: Work) -> Answer:
    return Answer("yes", {"cwd": str(Path.cwd()), "cache": os.environ["NEURON_COMPILE_CACHE_URL"]})


def no(work: Work) -> Answer:
    return Answer("no")


def crash(work: Work) -> Answer:
    os.kill(os.getpid(), signal.SIGSEGV)
    raise AssertionError


def leave(work: Work) -> Answer:
    sys.stderr.write("last words\n")
    sys.stderr.flush()
    os._exit(3)


def hang(work: Work) -> Answer:
    """With a child of its own, which must end as well."""
    sleeper = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    (Path(work.own) / "pids").write_text(f"{os.getpid()} {sleeper.pid}")
    time.sleep(600)
    raise AssertionError


def raise_it(work: Work) -> Answer:
    raise ValueError("first line\nsecond line")


def answer_then_crash(work: Work) -> Answer:
    import atexit

    atexit.register(os.kill, os.getpid(), signal.SIGABRT)
    return Answer("yes")


def kill_parent(work: Work) -> Answer:
    os.kill(os.getppid(), signal.SIGKILL)
    return Answer("yes")


def stop_parent(work: Work) -> Answer:
    (Path(work.shared) / "pid").write_text(str(os.getpid()))
    os.kill(os.getppid(), signal.SIGTERM)
    time.sleep(600)
    raise AssertionError

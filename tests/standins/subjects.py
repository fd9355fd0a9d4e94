"""Python code run under the stand-ins, each piece in a process of its own.

torch and torch-xla take eight seconds to import, so one process imports them (and nothing of the stand-ins) and forks a
child for every piece of code.
"""

from __future__ import annotations

import json
import os
import runpy
import signal
import subprocess
import sys
import textwrap
import traceback
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

from tests.standins import environment

ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Done:
    """How a piece of code ended; a negative `code` is a signal."""

    code: int
    out: str
    err: str

    @property
    def value(self) -> Any:
        """The JSON it printed last; AssertionError with its complaint when it failed."""
        assert self.code == 0, self.err
        return json.loads(self.out.splitlines()[-1])


class Subjects:
    """The process that forks; a context manager."""

    def __init__(self) -> None:
        variables = {**environment(), "OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "default"}
        variables["PYTHONPATH"] += os.pathsep + str(ROOT)
        command = [sys.executable, "-m", "tests.standins.subjects"]
        self._variables = variables
        self._process = subprocess.Popen(
            command, env=variables, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True
        )

    def __enter__(self) -> Subjects:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.communicate()

    def run(self, code: str, folder: Path, **variables: str) -> Done:
        """Run `code` in `folder`; STANDIN_ROOT and HOME are inside it unless `variables` say otherwise."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        own = {**self._variables, "STANDIN_ROOT": str(folder / "host"), "HOME": str(folder), **variables}
        task = {"code": textwrap.dedent(code), "folder": str(folder), "variables": own}
        self._process.stdin.write(json.dumps(task) + "\n")
        self._process.stdin.flush()
        status = int(self._process.stdout.readline())
        out, err = ((folder / name).read_text(errors="replace") for name in ("stdout", "stderr"))
        return Done(os.waitstatus_to_exitcode(status), out, err)


def _child(task: dict[str, Any]) -> int:
    os.environ.clear()
    os.environ.update(task["variables"])
    os.chdir(task["folder"])
    for number, name in ((1, "stdout"), (2, "stderr")):
        os.dup2(os.open(name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), number)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    try:
        Path("subject.py").write_text(task["code"])  # torch.jit.script reads the source again
        runpy.run_path("subject.py", run_name="__main__")
        sys.stdout.flush()
    except BaseException:
        traceback.print_exc()
        sys.stderr.flush()
        return 1
    return 0


def _serve() -> None:
    import torch._inductor.config

    torch._inductor.config.compile_threads = 1
    import torch_xla  # noqa: F401

    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            os._exit(_child(json.loads(line)))
        print(os.waitpid(child, 0)[1], flush=True)


if __name__ == "__main__":
    _serve()

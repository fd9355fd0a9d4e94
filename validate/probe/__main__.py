"""What only a Neuron host can answer, with evidence as JSON.

python -m validate.probe --out FILE [--only NAME ...] [--budget SECONDS]

Logs and graphs stay in FILE.work. Exit code 0 when the questions were put, whatever the answers; 1 when the smallest
graph does not work here, so that nothing else could; 2 for bad input, or where no Neuron SDK is installed.
"""

from __future__ import annotations

import importlib.util
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from types import FrameType
from typing import NoReturn

from ledger.errors import BadInput, run_cli
from ledger.flags import Parser, check_file, whole
from recipes.doctor.packages import is_placeholder
from validate.probe.question import Question
from validate.probe.questions import QUESTIONS, TINY
from validate.probe.run import run

BUDGET = 900


def main(argv: Sequence[str] | None = None) -> int:
    """Put the questions; GateFailed when the smallest graph does not work."""
    parser = Parser("validate.probe", (__doc__ or "").splitlines()[0])
    parser.add_argument("--out", type=Path, required=True, metavar="FILE", help="where the answers go")
    parser.add_argument("--only", nargs="+", default=[], metavar="NAME", help="ask these alone")
    parser.add_argument("--budget", type=whole(1), default=BUDGET, metavar="SECONDS", help="for all of it; 900")
    options = parser.parse_args(argv)
    check_file("--out", options.out)
    chosen = _chosen(options.only)
    _check_installed()
    signal.signal(signal.SIGTERM, stop)
    run(options.out, TINY, chosen, options.budget, say)
    return 0


def stop(number: int, frame: FrameType | None) -> NoReturn:
    """A signal as an exception: the child ends too, and what is known stays in the part."""
    raise SystemExit(128 + number)


def say(line: str) -> None:
    """A line for whoever watches."""
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def _chosen(names: Sequence[str]) -> tuple[Question, ...]:
    known = {question.id: question for question in QUESTIONS}
    for name in names:
        if name not in known:
            raise BadInput(f"--only {name} is not known; accepted: {', '.join(known)}")
    return tuple(question for question in QUESTIONS if not names or question.id in names)


def _check_installed() -> None:
    accepted = "accepted: an environment of envs/inf2-build.in (python -m recipes.doctor --role inf2-build says more)"
    for name in ("torch-neuronx", "neuronx-cc"):
        if is_placeholder(name):
            raise BadInput(f"{name} is the placeholder that PyPI holds under this name; {accepted}")
    if importlib.util.find_spec("torch_neuronx") is None:
        raise BadInput(f"torch-neuronx is not installed for {sys.executable}; {accepted}")
    # By what it does: a placeholder may have no metadata, and a program that the SDK runs may be missing.
    from recipes.neuron.versions import installed

    installed("trace")


if __name__ == "__main__":
    run_cli(main)

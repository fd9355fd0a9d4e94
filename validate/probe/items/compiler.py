"""The compiler itself: flags that it takes, operators that it names, and what it says when it refuses."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from recipes.doctor.tools import ask, find
from validate.probe.question import Answer, Work

_CODE = re.compile(r"\bNCC_[A-Z]+\d+\b")
_LOGS = ("log-neuron-cc.txt", "log.txt")


def num_parallel_jobs(work: Work) -> Answer:
    """Compile the tiny graph with it."""
    import torch

    from validate.probe.items import sdk
    from validate.probe.items.tiny import PlusOne

    try:
        sdk.trace(PlusOne(), (torch.ones(4),), work, "--num-parallel-jobs", "2")
    except Exception as error:
        return Answer("no", refusal(error, Path(work.own)))
    return Answer("yes", {"flag": "--num-parallel-jobs 2"})


def list_operators(work: Work) -> Answer:
    """The compiler's own list."""
    program = find("neuronx-cc")
    if program is None:
        return Answer("no neuronx-cc on PATH")
    code, out, err = ask(program, "list-operators", "--framework", "XLA", seconds=50)
    names = sorted(set(out.split()))
    if code != 0 or not names:
        return Answer("it does not say", {"code": code, "said": (err or out)[-1000:]})
    return Answer(f"{len(names)} names", {"operators": names})


def refusal(error: Exception, folder: Path) -> dict[str, Any]:
    """What the compiler said: its codes, the exception, and the ends of its logs."""
    logs = [path for name in _LOGS for path in sorted(folder.rglob(name))]
    texts = [path.read_text(encoding="utf-8", errors="replace") for path in logs]
    said = f"{type(error).__name__}: {error}"
    codes = sorted({code for text in (said, *texts) for code in _CODE.findall(text)})
    ends = {str(path.relative_to(folder)): text[-2000:] for path, text in zip(logs, texts, strict=True) if text}
    return {"codes": codes, "said": said[:1000], "logs": ends}

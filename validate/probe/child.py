"""python -m validate.probe.child MODULE:FUNCTION OWN SHARED: one question, in a process that may crash.

The answer, or the exception that came instead, goes to OWN/answer.json. A process that ends without that file crashed.
"""

from __future__ import annotations

import json
import sys
import traceback
from importlib import import_module
from pathlib import Path
from typing import Any

from ledger.atomic import write_json
from validate.probe.question import Answer, Work

FILE = "answer.json"
_LINES = 12


def main(call: str, work: Work) -> None:
    """Ask, and write what came of it."""
    module, _, function = call.partition(":")
    try:
        answer: Answer = getattr(import_module(module), function)(work)
        told: dict[str, Any] = {"answer": answer.answer, "evidence": dict(answer.evidence), "error": None}
    except Exception as error:
        lines = traceback.format_exc().strip().splitlines()
        first = next(iter(str(error).strip().splitlines()), "")
        told = {
            "answer": "failed",
            "evidence": {"traceback": lines[-_LINES:]},
            "error": f"{type(error).__name__}: {first}"[:500],
        }
    write_json(Path(work.own) / FILE, json.loads(json.dumps(told, default=str)))


if __name__ == "__main__":
    main(sys.argv[1], Work(sys.argv[2], sys.argv[3]))

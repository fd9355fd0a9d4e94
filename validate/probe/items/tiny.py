"""x + 1, compiled, loaded and run: what everything else stands on."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import torch

from ledger.atomic import write_json
from validate.probe.items import sdk
from validate.probe.question import Answer, Work

SAVED = "tiny.pt"


class PlusOne(torch.nn.Module):
    """x + 1."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """[4] to [4]."""
        return x + 1


def answer(work: Work) -> Answer:
    """Compile on the CPU backend, else on the usual one; load and run where a question needs a device."""
    x = torch.arange(4, dtype=torch.float32)
    evidence: dict[str, Any] = {}
    started = time.monotonic()
    try:
        traced = sdk.trace(PlusOne(), (x,), work, cpu_backend=True)
        works = True
    except Exception as error:
        evidence["cpu_backend_error"] = said = f"{type(error).__name__}: {error}"[:500]
        works = False
        try:
            traced = sdk.trace(PlusOne(), (x,), work, cpu_backend=False)
        except Exception as other:
            raise RuntimeError(f"with cpu_backend: {said}; without: {type(other).__name__}: {other}") from other
    write_json(Path(work.shared) / sdk.CPU_BACKEND, works)
    path = sdk.save(traced, Path(work.shared) / SAVED)
    evidence |= {
        "cpu_backend": works,
        "compile_seconds": round(time.monotonic() - started, 3),
        "archive_bytes": path.stat().st_size,
    }
    if not json.loads((Path(work.shared) / "host.json").read_bytes())["load"]:
        return Answer("yes, compiled; no question here needs a device", evidence)
    return _run(path, x, evidence)


def _run(path: Path, x: torch.Tensor, evidence: dict[str, Any]) -> Answer:
    started = time.monotonic()
    model = sdk.load(path)
    evidence["load_seconds"] = round(time.monotonic() - started, 3)
    started = time.monotonic()
    found = sdk.outputs(model(x))[0]
    evidence |= {
        "first_call_seconds": round(time.monotonic() - started, 4),
        "expected": sdk.numbers(x + 1),
        "found": sdk.numbers(found),
    }
    return Answer("yes" if torch.equal(found, x + 1) else "no, it answers wrongly", evidence)

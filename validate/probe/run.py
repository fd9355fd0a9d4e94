"""A run: the smallest graph first, then one question after the other while the budget lasts."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from ledger.atomic import write_json
from ledger.errors import GateFailed
from validate.probe.asking import NOT_REACHED, Record, ask, not_reached
from validate.probe.hostfacts import host_facts
from validate.probe.journal import Journal
from validate.probe.question import Question

LEAST = 5.0
"""Seconds below which no question is worth asking."""
_SHOWN = 60


def run(out: Path, tiny: Question, chosen: Sequence[Question], budget: float, say: Callable[[str], None]) -> None:
    """Ask `tiny`, then `chosen`; GateFailed, with the file written, when the first fails and others need a device."""
    ends = time.monotonic() + budget
    started = datetime.now(UTC).isoformat(timespec="seconds")
    host = host_facts()
    device = any(one.device for one in chosen)
    work = out.resolve().with_name(f"{out.name}.work")
    shutil.rmtree(work, ignore_errors=True)
    write_json(work / "shared/host.json", host | {"load": device})
    journal = Journal(out, started, host)
    first = ask(tiny, work, ends - time.monotonic())
    _keep(journal, first, say)
    if device and not first.answer.startswith("yes"):
        journal.finish()
        raise GateFailed(_why(first, host, chosen))
    for question in chosen:
        left = ends - time.monotonic()
        late = f"{max(left, 0):.0f} s of {budget:.0f} were left"
        _keep(journal, ask(question, work, left) if left >= LEAST else not_reached(question, late), say)
    journal.finish()


def _keep(journal: Journal, record: Record, say: Callable[[str], None]) -> None:
    journal.add(record)
    say(f"{record.id}: {record.answer} ({record.seconds:.1f} s)" + (f": {record.error}" if record.error else ""))


def _why(first: Record, host: dict[str, Any], chosen: Sequence[Question]) -> str:
    if first.answer == NOT_REACHED:
        return f"the smallest graph (x + 1) was not through: {first.error}; accepted: a larger --budget"
    said = f"the smallest graph (x + 1) does not work here: {first.answer}{f', {first.error}' if first.error else ''}"
    if holders := host["devices"]["holders"]:
        who = ", ".join(f"process {one['pid']} ({one['command'][:_SHOWN]})" for one in holders)
        said = f"{said}; NeuronCores are held by {who}, and a core has one process"
    if not (problem := host["devices"]["problem"]):
        return said
    free = " ".join(one.id for one in chosen if not one.device)
    return f"{said}; {problem}" + (f"; questions that need no device: --only {free}" if free else "")

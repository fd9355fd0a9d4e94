"""The matrix for people: a row per variant, the sentence at the top, and the four numbers under it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from ledger.receipts import Receipt
from validate.report.plots import bound
from validate.report.run import Node, Run, point
from validate.rows import row

Verdict = Literal["passed", "failed", "incomplete"]
BUSY = 1.5
"""A machine is busy beyond so many running processes a CPU; the line itself leaves about one behind."""
_MORE = ("batch_tok_s", "transformers_batch_tok_s", "transformers_best")


@dataclass(frozen=True)
class Headline:
    """The verdict of a whole run, the sentences that say why, and (figure, what it is) for a glance."""

    verdict: Verdict
    sentences: tuple[str, ...]
    glance: tuple[tuple[str, str], ...]


def rows(run: Run, checkpoint: str) -> list[dict[str, Any]]:
    """One flat object per variant, with the keys of the summary and what only the report shows."""
    return [_row(run, checkpoint, variant) for variant in run.variants(checkpoint)]


def headline(run: Run, every: Sequence[Mapping[str, Any]]) -> Headline:
    """What a reader has to know first."""
    failed = [node for node in run.nodes if node.state == "failed"]
    missing = [node for node in run.nodes if node.state == "missing"]
    passed = sum(one["parity"]["verdict"] == "passed" for one in every)
    sentences = [_counted("failed", failed)] if failed else []
    sentences += [_counted("missing", missing)] if missing else []
    if not run.nodes:
        sentences = ["No stage left a receipt: the run failed before the first one."]
    elif not sentences:
        sentences = ["Every stage is done; what was released is what parity has passed."]
    busy = _busy(run)
    sentences += busy
    verdict: Verdict = "failed" if failed else "incomplete" if missing or not every else "passed"
    glance = [
        (f"{passed} of {len(every)}", "variants passed parity"),
        (f"{_sum(every, 'tokens'):,}", "tokens judged against the oracle"),
        (f"{_sum(every, 'mismatches'):,}", f"mismatches, {_sum(every, 'exemptions'):,} exemptions"),
    ]
    ratios = [one["decode_vs_transformers"] for one in every if one["decode_vs_transformers"] is not None]
    if ratios:
        low, high = (f"{ratio:.1f}" for ratio in (min(ratios), max(ratios)))
        glance.append(
            (
                f"{low}×" if low == high else f"{low} to {high}×",
                f"decode speed of transformers, {'on a busy machine' if busy else 'best mode'}",
            )
        )
    return Headline(verdict, tuple(sentences), tuple(glance))


def _row(run: Run, checkpoint: str, variant: str) -> dict[str, Any]:
    receipts = run.receipts(checkpoint, variant)
    shared = {receipt.stage: receipt for receipt in run.receipts(checkpoint, None).values()}
    told = point(variant, receipts)
    made = row(checkpoint, told, {"fetch": shared["fetch"]} | receipts if "fetch" in shared else receipts)
    return made | {"batch": told["batch"]} | _bench(receipts.get("bench"))


def _bench(bench: Receipt | None) -> dict[str, Any]:
    measured, facts = (bench.measured, bench.facts) if bench else ({}, {})
    limit = bound(measured, facts)
    mode = (measured.get("transformers") or {}).get(measured.get("transformers_best")) or {}
    speed = measured.get("decode_tok_s")
    return {
        "bound_tok_s": limit,
        "of_bound": speed / limit if limit and speed else None,
        "transformers_ttft_ms": mode.get("ttft_ms"),
        **{key: measured.get(key) for key in _MORE},
    }


def _busy(run: Run) -> list[str]:
    """A sentence when others were at work while a bench measured: transformers suffers more from that than a build."""
    loads = [
        (measured["load_average_before"], measured["cpus"], node.name)
        for node in run.nodes
        if node.stage == "bench"
        and node.receipt
        and {"load_average_before", "cpus"} <= (measured := node.receipt.measured).keys()
    ]
    busy = [one for one in loads if one[0] > BUSY * one[1]]
    if not busy:
        return []
    load, cpus, name = max(busy)
    which = f"{len(busy)} of {len(loads)} benches began on a busy machine (load {load:g} on {cpus} CPUs before {name})"
    return [f"{which}: speeds and ratios of these say little."]


def _counted(state: str, nodes: Sequence[Node]) -> str:
    several = len({node.checkpoint for node in nodes}) > 1
    names = [f"{node.checkpoint}/{node.name}" if several else node.name for node in nodes]
    shown = ", ".join(names[:8]) + (f" and {len(names) - 8} more" if len(names) > 8 else "")
    return f"{state.capitalize()}: {shown}."


def _sum(every: Sequence[Mapping[str, Any]], key: str) -> int:
    return sum(one["parity"][key] or 0 for one in every)

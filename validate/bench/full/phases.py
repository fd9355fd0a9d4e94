"""What is measured at full size, in three phases, each with processes of its own: steps, beside transformers, load.

A static graph reads its whole buffers whatever the position, so long contexts are timed after one chunk: filling
32,768 rows would take an hour and change nothing.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path
from statistics import median
from typing import Any

from ledger.stage import say
from serve.manifest import Manifest
from validate.bench import artifact_worker, read_probe
from validate.bench.full.empty_graph import emptied
from validate.bench.lines import Worker, WorkerFailed
from validate.bench.rounds import Command, reference_modes
from validate.bench.stage import step_bytes
from validate.bench.turns import Participant, Task, close_ones

Prompts = Callable[[int], list[int]]
Artifacts = Mapping[str, Path]

CONTEXTS = ("512-128", "8192-512", "32768-512")
SLOTS, PREFILL = "batch8", "2560-512"
VARIANTS = (*CONTEXTS, SLOTS, PREFILL)
"""The variants of config/full.yaml that are timed."""
ROOM = 64
"""Rows of a context that are left for the steps that are timed."""
LONGEST = 2048
"""Tokens of the longest prompt."""
STEPS = 8


def steps(artifacts: Artifacts, prompts: Prompts, threads: int, rounds: int) -> dict[str, Any]:
    """Seconds of a step at every context, at eight slots and with empty graphs, the read probe in between.

    `host_s` is what a step at 512 spends outside the runtime, `dispatch_s` what the runtime takes for graphs that
    compute nothing, `probe_s` what the probe takes to read as much as a step must.
    """
    near = artifacts["512-128"]
    moved = step_bytes(Manifest.read(near))
    times: dict[str, list[float]] = {name: [] for name in (*CONTEXTS, SLOTS, "probe", "host", "dispatch")}
    with ExitStack() as stack:
        bare = emptied(near, Path(stack.enter_context(tempfile.TemporaryDirectory())))
        workers = {name: stack.enter_context(_artifact(artifacts[name], threads)) for name in (*CONTEXTS, SLOTS)}
        empty = stack.enter_context(_artifact(bare, threads))
        probe = stack.enter_context(Worker(read_probe.MODULE, [str(threads)]))
        for name, worker in (*workers.items(), ("512-128", empty)):
            say(f"bench-full: filling {name}")
            worker.ask(prompts=_filling(name, prompts), steps=2)
        for number in range(1, rounds + 1):
            for name, worker in workers.items():
                times[name] += worker.ask(more=STEPS)
                if worker is workers["512-128"]:
                    times["host"].append(worker.facts["host_s"] / STEPS)
                    times["probe"] += [one * moved / probe.facts["bytes"] for one in _passes(probe)]
            times["dispatch"].append((sum(empty.ask(more=STEPS)) - empty.facts["host_s"]) / STEPS)
            say(f"bench-full: steps, round {number} of {rounds}")
    return {f"{name}_s": median(values) for name, values in times.items()} | {"step_bytes": moved}


def beside(artifacts: Artifacts, reference: Command, prompts: Prompts, threads: int, rounds: int) -> dict[str, Any]:
    """Seconds of both sides at the same tasks, in turn: transformers' in its best mode for each.

    `answer` and `slots`: of a step at 512 context and of one with eight prompts; `prefill`: of 2,048 tokens, with
    `at_2048` of a step after it. WorkerFailed when a side cannot run.
    """
    tasks = {
        "answer": ("512-128", Task("answer", [prompts(512 - ROOM)], 1 + 4 * STEPS)),
        "prefill": (PREFILL, Task("prefill", [prompts(LONGEST)], 1 + STEPS)),
        "slots": (SLOTS, Task("slots", [prompts(128) for _ in range(8)], 1 + 2 * STEPS)),
    }
    with ExitStack() as stack:
        ours = {
            name: Participant(stack.enter_context(_artifact(artifacts[tasks[name][0]], threads)), {}) for name in tasks
        }
        modes = [mode for mode in reference_modes(stack, reference).values() if isinstance(mode, Participant)]
        if not modes:
            raise WorkerFailed("transformers cannot load the checkpoint")
        close = dict.fromkeys(tasks, modes)
        for number in range(1, rounds + 1):
            for name, (_, task) in tasks.items():
                for one in (ours[name], *close[name]):
                    one.turn(task)
                close[name] = close_ones(close[name], _seconds(name))
            for one in (*ours.values(), *(close[name][0] for name in tasks)):
                if one.reason is not None:
                    raise WorkerFailed(one.reason)
            say(f"bench-full: beside transformers, round {number} of {rounds}")
        best = {name: min(close[name], key=_seconds(name)) for name in tasks}
        return {
            side: {name: _seconds(name)(one) for name, one in ones.items()}
            | {"at_2048": ones["prefill"].step("prefill")}
            for side, ones in (("ours", ours), ("transformers", best))
        }


def _seconds(task: str) -> Callable[[Participant], float]:
    """What counts at a task: the first token of a prefill, the step of anything else."""
    return lambda one: one.first(task) if task == "prefill" else one.step(task)


def load(artifact: Path, threads: int) -> dict[str, float]:
    """Seconds from the start of a process to its first token, and its peak RSS beyond the weight file, in bytes."""
    weights = sum(ref.bytes for ref in Manifest.read(artifact).weights)
    with _artifact(artifact, threads) as worker:
        worker.ask(more=0)
        return {"load_s": worker.load_s, "above_weights": worker.facts["peak_rss_mb"] * 1e6 - weights}


def _passes(probe: Worker) -> list[float]:
    return probe.ask(steps=2)


def _artifact(folder: Path, threads: int) -> Worker:
    return Worker(artifact_worker.MODULE, [str(folder.resolve()), str(threads)])


def _filling(name: str, prompts: Prompts) -> list[list[int]]:
    """A prompt for each slot that leaves ROOM rows, and is no longer than one chunk."""
    return [prompts(128) for _ in range(8)] if name == SLOTS else [prompts(512 - ROOM)]

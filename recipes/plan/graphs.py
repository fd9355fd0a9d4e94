"""Every distinct graph of a matrix, lowered and judged once, two at a time.

Variants that differ in `slim` or `kv` alone share their graphs. A worker lowers in a child of its own (see
`recipes.lowering`) and hands back what the plan counts with; the module itself stays there.
"""

from __future__ import annotations

import gc
import multiprocessing
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from typing import Any

from recipes.fit.cost import dot_flops
from recipes.kinds import kind_of_text
from recipes.lint import Expected, Finding, judge_module
from recipes.lint.hlo import read_module
from recipes.lowering import LowerRecipe, lower
from serve.manifest import GRAPHS, GraphName, Signature

WORKERS = 2
Point = tuple[str, LowerRecipe]
"""The name of a checkpoint, and what is lowered of it."""


@dataclass(frozen=True)
class Graph:
    """What the plan knows of one lowered graph; `flops` are those of a call."""

    signature: Signature
    findings: tuple[Finding, ...]
    flops: int


def examine(text_config: dict[str, Any], recipe: LowerRecipe, graph: GraphName) -> Graph:
    """Lower one graph and judge it for its target; BadInput as `lower` and the lint raise it."""
    lowered = lower(text_config, recipe, graph)
    expected = Expected(tp=recipe.tp, aliases=len(lowered.signature.aliases))
    module = read_module(lowered.hlo, f"graph {graph}")
    findings = judge_module(module, recipe.target, expected=expected, origin=f"graph {graph}")
    return Graph(lowered.signature, tuple(findings), dot_flops(module))


def examine_all(
    points: Iterable[Point], text_configs: Mapping[str, dict[str, Any]]
) -> dict[Point, dict[GraphName, Graph]]:
    """Both graphs of each distinct point; `text_configs` are by the name of the checkpoint."""
    # Where torch-xla is, the library imports it, and it warns unless it is told of a device.
    os.environ["PJRT_DEVICE"] = "CPU"
    wanted = [(point, graph) for point in dict.fromkeys(points) for graph in GRAPHS]
    for text_config in text_configs.values():
        kind_of_text(text_config).text_model()  # children inherit the slow imports
    jobs = [(text_configs[name], recipe, graph) for (name, recipe), graph in wanted]
    with _pool(1) as pool:
        graphs = pool.submit(_by_workers, jobs).result()
    found: dict[Point, dict[GraphName, Graph]] = {}
    for (point, name), graph in zip(wanted, graphs, strict=True):
        found.setdefault(point, {})[name] = graph
    return found


def _by_workers(jobs: Sequence[tuple[dict[str, Any], LowerRecipe, GraphName]]) -> list[Graph]:
    """`examine` of all jobs, in a process between the caller and the workers, for what takes seconds to import.

    A process that has imported torch-xla starts a client when it exits, so this must not be the caller's. Of the
    garbage collector each graph needs the run that `lower` asks for, and that not over modules.
    """
    import torch_xla  # noqa: F401

    gc.freeze()
    with _pool(WORKERS, gc.disable) as pool:
        running = [pool.submit(examine, *job) for job in jobs]
        try:
            return [one.result() for one in running]
        finally:
            pool.shutdown(cancel_futures=True)  # after an error the rest need not be lowered


def _pool(workers: int, initializer: Callable[[], None] | None = None) -> ProcessPoolExecutor:
    return ProcessPoolExecutor(workers, multiprocessing.get_context("fork"), initializer)

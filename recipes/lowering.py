"""The step graph of one point of the matrix, as HLO, with no weights and no device: the work of stage lower.

Every weight, input and state tensor is a placeholder, so a full-size graph lowers in under a second and a gigabyte.
Each graph is lowered in a process of its own: torch-xla threads one token through all collectives of a process, so
a second graph would drag in the first, and instruction ids would depend on what was lowered before.
"""

from __future__ import annotations

import gc
import multiprocessing
import os
import re
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict

from ledger.errors import FoundryError
from ledger.receipts import Ref
from ledger.stage import Job, Outcome
from recipes.hlo_alias import with_aliases
from recipes.kinds import kind_of_text
from recipes.shell import drop_foreign
from serve.manifest import GRAPHS, GraphName, Output, Parameter, Signature


class LowerRecipe(BaseModel):
    """What a graph depends on, apart from the checkpoint's architecture."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    kv_max: int
    kv_bucket: int
    tp: int
    batch: int
    dtype: Literal["float32", "bfloat16"]
    target: Literal["cpu", "inf2"]


@dataclass(frozen=True)
class Lowered:
    """An HLO module with its aliases set, its signature, and the number of its instructions."""

    hlo: bytes
    signature: Signature
    instructions: int


def ring_rows(sliding_window: int, kv_max: int, kv_bucket: int) -> int:
    """Rows of a sliding layer's buffer: enough that a chunk never overwrites what its own queries still read."""
    return min(kv_max, sliding_window + kv_bucket)


def lower(text_config: dict[str, Any], recipe: LowerRecipe, graph: GraphName) -> Lowered:
    """Lower one graph in a fresh child of this process; the same arguments give the same bytes.

    BadInput for a text model that is not of the family, or whose counts `tp` ranks cannot share.
    """
    kind_of_text(text_config).text_model()  # the child inherits the slow imports
    # A dead XLA client that the child came to collect would wait for threads that the fork left behind.
    gc.collect()
    with ProcessPoolExecutor(1, multiprocessing.get_context("fork")) as pool:
        try:
            return pool.submit(_lower, text_config, recipe, graph).result()
        except BrokenProcessPool:
            raise FoundryError(f"lowering graph {graph}: the process died; its last words are above") from None


def _lower(text_config: dict[str, Any], recipe: LowerRecipe, graph: GraphName) -> Lowered:
    drop_foreign(os.environ)
    os.environ.update(PJRT_DEVICE="CPU", XLA_ALWAYS_ALLREDUCE="1", TF_CPP_MIN_LOG_LEVEL="1")
    import torch
    import torch._inductor.config

    # Nothing is compiled here, and a pool that waits to do so would cost each graph seconds and outlive the process.
    torch._inductor.config.compile_threads = 1
    import torch_xla
    from torch_xla.core.xla_builder import create_placeholder_tensor

    from recipes.forms import FORMS
    from recipes.stepgraph import TORCH, StepGraph, weight_name

    # Python numbers become constants of the graph, not parameters whose value nobody outside would know.
    torch_xla._XLAC._set_xla_all_numbers_special_scalars(True)
    model = StepGraph(text_config, recipe.tp, recipe.dtype, FORMS[recipe.target])
    tokens = recipe.kv_bucket if graph == "prefill" else 1
    ring = ring_rows(text_config["sliding_window"], recipe.kv_max, recipe.kv_bucket)
    states = list(model.states(recipe.batch, recipe.kv_max, ring))
    batch = recipe.batch if graph == "decode" else 1
    inputs = list(model.inputs(batch, tokens, recipe.kv_max, ring, recipe.batch))
    parameters = [*model.weights(), *inputs, *states]
    tensors = {p.name: create_placeholder_tensor(p.shape, TORCH[p.dtype]) for p in parameters}
    weights = {name: tensors[weight_name(name)] for name in model.weight_names()}
    arguments = ({p.name: tensors[p.name] for p in inputs}, {p.name: tensors[p.name] for p in states})
    with torch.no_grad():
        logits, state = torch.func.functional_call(model, weights, arguments)
    context = torch_xla._XLAC.lowering.LoweringContext("step")
    context.build([logits, *(state[p.name] for p in states)])

    numbered = {context.tensor_parameter_id(tensors[p.name]): p for p in parameters}
    outputs = [
        Output(name="logits", role="logits", shape=tuple(logits.shape), dtype="float32"),
        *(Output(name=p.name, role="state", shape=p.shape, dtype=p.dtype) for p in states),
    ]
    return _finish(context, numbered, outputs, graph, batch, tokens)


def _finish(
    context: Any,
    numbered: dict[int, Parameter],
    outputs: list[Output],
    graph: GraphName,
    batch: int,
    tokens: int,
) -> Lowered:
    """Signature in parameter order, aliases from names, and the module with those aliases."""
    text = context.hlo_text()
    count = len(re.findall(r"^  parameters \{", text, re.MULTILINE))
    for number in range(count):
        numbered.setdefault(number, Parameter(name=f"token.{number}", role="token", shape=(), dtype="float32"))
    unused = [parameter.name for number, parameter in numbered.items() if number < 0]
    if unused:
        raise FoundryError(f"graph {graph} does not use {', '.join(unused)}; every weight, input and state must matter")
    by_name = {parameter.name: number for number, parameter in numbered.items()}
    signature = Signature(
        graph=graph,
        batch=batch,
        tokens=tokens,
        parameters=tuple(numbered[number] for number in range(count)),
        outputs=tuple(outputs),
        aliases={i: by_name[output.name] for i, output in enumerate(outputs) if output.role == "state"},
    )
    return Lowered(with_aliases(context.hlo(), signature.aliases), signature, text.count("opcode: "))


def work(job: Job[LowerRecipe]) -> Outcome:
    """Lower both graphs of the checkpoint's architecture."""
    text_config = job.store.read_json(job.inputs["fetch"].outputs["config.json"])["text_config"]
    outputs: dict[str, Ref] = {}
    facts: dict[str, Any] = {}
    for graph in GRAPHS:
        lowered = lower(text_config, job.recipe, graph)
        outputs[f"{graph}.hlo.pb"] = job.store.put_bytes(lowered.hlo)
        outputs[f"{graph}.signature.json"] = job.store.put_json(lowered.signature.model_dump(mode="json"))
        facts[graph] = {"instructions": lowered.instructions}
    facts["tp"] = job.recipe.tp
    facts["ring"] = ring_rows(text_config["sliding_window"], job.recipe.kv_max, job.recipe.kv_bucket)
    return Outcome(outputs=outputs, facts=facts)

"""Stand-in for ModelBuilder.build_nxd_model; SDK document, section 3.3: compiled graphs to one TorchScript module."""

# mypy: disallow-untyped-calls=False
from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from neuron_standin.ops import bytes_tensor
from torch import Tensor, nn
from torch.utils import _pytree
from torch_neuronx.contexts import disable_nrt_load
from torch_neuronx.xla_impl.trace import HloArtifacts

from neuronx_distributed.trace.spmd import (
    JITWrapper,
    NxDModel,
    NxDModelExecutor,
    SPMDBucketModelScript,
    Zeros,
    real_outputs,
)


@dataclass(frozen=True)
class Graph:
    """One compiled graph, the same for all ranks."""

    key: str
    bucket: int
    example_inputs: tuple[Tensor, ...]
    artifacts: HloArtifacts
    neff: bytes


class Packer:
    """Real outputs to what the module returned, less its states; with states a single output is bare."""

    def __init__(self, artifacts: HloArtifacts) -> None:
        self._spec = artifacts.packer
        self._aliased = any(one.alias >= 0 for one in artifacts.metaneff.outputs)

    def __call__(self, outputs: list[Tensor]) -> Any:
        if not self._aliased:
            return _pytree.tree_unflatten(outputs, self._spec)
        return outputs[0] if len(outputs) == 1 else tuple(outputs)


def assemble(graphs: list[Graph], start_rank: int, ranks: int) -> torch.jit.ScriptModule:
    """The model, on no device; called with the inputs of any of its graphs."""
    keys = list(dict.fromkeys(graph.key for graph in graphs))
    by_key = {key: [graph for graph in graphs if graph.key == key] for key in keys}
    first = graphs[0].artifacts
    weights = {
        slot.name: slot for graph in graphs for slot in graph.artifacts.metaneff.parameters if slot.kind == "weight"
    }
    with disable_nrt_load(), torch.no_grad():
        model = torch.jit.script(
            NxDModel(
                models=nn.ModuleDict({key: _buckets(by_key[key], ranks) for key in keys}),
                flattener_map=nn.ModuleDict({key: _flattener(by_key[key][0]) for key in keys}),
                input_shape_map={_shapes(graph): (graph.key, graph.bucket) for graph in graphs},
                packer=torch.jit.trace(JITWrapper(Packer(first)), (real_outputs(first.metaneff),), check_trace=False),
                state_initializer=Zeros(first.metaneff.states(), ranks),
                weight_initializer=Zeros(list(weights.values()), ranks),
                start_rank_id=start_rank,
            )
        )
        example = by_key[keys[-1]][0].example_inputs
        model.mock_initialization(True)
        executor = torch.jit.trace(NxDModelExecutor(model), example, strict=False, check_trace=False)
        executor.nxd_model.mock_initialization(False)
    return executor  # type: ignore[no-any-return]


def _shapes(graph: Graph) -> str:
    return str([list(one.shape) for one in graph.example_inputs])


def _buckets(graphs: list[Graph], ranks: int) -> nn.Module:
    tables = [bytes_tensor(graph.artifacts.metaneff.SerializeToString()) for graph in graphs]
    return SPMDBucketModelScript([bytes_tensor(graph.neff) for graph in graphs], tables, ranks)


def _flattener(graph: Graph) -> Any:
    flattener = JITWrapper(graph.artifacts.flattener)
    return torch.jit.trace(flattener, (list(graph.example_inputs),), strict=False, check_trace=False)

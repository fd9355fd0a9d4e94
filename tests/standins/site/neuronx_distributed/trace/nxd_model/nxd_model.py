"""Stand-in for trace.nxd_model.nxd_model; SDK document, section 3.4: graphs, weights, and buffers one can write to.

Not stood in for: save and load, forward modes but the default, weight layouts.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from neuron_standin.metaneff import Slot
from neuron_standin.ops import bytes_tensor, device_side
from torch import Tensor, nn
from torch.utils import _pytree

if TYPE_CHECKING:
    from neuronx_distributed.trace.functions import CompilationArtifacts, TraceArtifacts

Row = dict[str, Tensor]


@dataclass(frozen=True)
class _Graph:
    neff: Tensor
    metaneff: Tensor
    traced: TraceArtifacts


class NxDModel(nn.Module):
    """Routes by names and shapes of the inputs; weights and states are shared by name."""

    def __init__(
        self,
        world_size: int,
        start_rank: int | None = None,
        local_ranks_size: int | None = None,
        state_initializer: Any = None,
        layout_transformer: Any = None,
    ) -> None:
        super().__init__()
        if (start_rank is None) != (local_ranks_size is None) and local_ranks_size != world_size:
            raise AssertionError("start_rank and local_ranks_size must be set together")
        self.world_size, self.start_rank = world_size, start_rank or 0
        self.local_ranks_size = local_ranks_size or world_size
        self.weights: list[Row] = [{} for _ in range(self.local_ranks_size)]
        self.states: list[Row] = [{} for _ in range(self.local_ranks_size)]
        self.loaded_on_neuron = False
        self._graphs: dict[str, _Graph] = {}

    def add(self, key: str, trace_artifacts: TraceArtifacts, compilation_artifacts: CompilationArtifacts) -> NxDModel:
        """Add a compiled graph."""
        table = bytes_tensor(trace_artifacts.metaneff.SerializeToString())
        self._graphs[key] = _Graph(bytes_tensor(compilation_artifacts.get_neff_bytes()), table, trace_artifacts)
        return self

    def get_neff(self, key: str) -> bytes:
        """The compiled graph of a key."""
        return self._graphs[key].neff.numpy().tobytes()

    def set_weights(self, sharded_checkpoint: list[Row]) -> None:
        """One dict per rank, before `to_neuron`; unknown names are dropped, missing ones are zeros."""
        if self.loaded_on_neuron:
            raise ValueError(
                "set_weights() was called when the model was already loaded on neuron. "
                "If you need to replace your weights, call `replace_weights()` instead."
            )
        wanted = self._slots("weight")
        rows = [{s.name: row[s.name] if s.name in row else _zeros(s) for s in wanted} for row in sharded_checkpoint]
        self.weights = torch.ops.neuron._parallel_load(rows)

    def to_neuron(self) -> None:
        """Load, with states of zero."""
        if not self.loaded_on_neuron:
            fresh = [{slot.name: _zeros(slot) for slot in self._slots("state")} for _ in self.weights]
            self.states = torch.ops.neuron._parallel_load(fresh)
            self.loaded_on_neuron = True

    def replace_weights(self, sharded_checkpoint: list[Row]) -> None:
        """Other weights for a loaded model; its states start over."""
        self.loaded_on_neuron = False
        self.set_weights(sharded_checkpoint)
        self.to_neuron()

    def read_from_neuron_buffer(self, buffer_key: str, rank: int) -> Tensor:
        """A copy of a state or weight; KeyError for another name."""
        return self._buffer(buffer_key, rank).clone()

    def write_to_neuron_buffer(self, tensor: Tensor, buffer_key: str, rank: int) -> None:
        """Write a state or weight in place; KeyError for another name or shape."""
        buffer = self._buffer(buffer_key, rank)
        if tensor.shape != buffer.shape:
            raise KeyError(f"Cannot write tensor of shape {tensor.shape} to neuron buffer with shape {buffer.shape}")
        buffer.copy_(tensor)

    def forward(
        self, *args: Tensor, model_name: str | None = None, forward_mode: str = "default", **kwargs: Tensor
    ) -> Any:
        """Rank 0's outputs, in the structure of the traced module's."""
        if not self.loaded_on_neuron:
            raise RuntimeError("Model not initialized. Call set_weights() followed by to_neuron()")
        if forward_mode != "default":
            raise NotImplementedError(f"stand-in: forward_mode={forward_mode!r} is not stood in for")
        graph = self._route(args, kwargs, model_name)
        inputs = [*args, *(kwargs[name] for name in graph.traced.names[len(args) :])]
        outputs = torch.ops.neuron.spmd_forward(
            graph.neff, graph.metaneff, inputs, self.weights, self.states, self.local_ranks_size
        )
        return _pytree.tree_unflatten(list(outputs), graph.traced.packer)

    def save(self, path_to_save: str, save_weights: bool = False) -> None:
        """Not stood in for."""
        raise NotImplementedError("stand-in: NxDModel.save is not stood in for")

    def _route(self, args: tuple[Tensor, ...], kwargs: dict[str, Tensor], model_name: str | None) -> _Graph:
        found = {}
        for key, graph in self._graphs.items():
            names = graph.traced.names
            given = {**dict(zip(names, args, strict=False)), **kwargs}
            shapes = {name: tuple(one.shape) for name, one in given.items()}
            if shapes == dict(zip(names, graph.traced.shapes, strict=True)):
                found[key] = graph
        if not found:
            first = next(iter(self._graphs.values())).traced.names
            given = {**dict(zip(first, args, strict=False)), **kwargs}
            raise KeyError("(" + ", ".join(f"{name}: {list(one.shape)}" for name, one in given.items()) + ")")
        if len(found) > 1 and model_name is None:
            raise AssertionError(f"Got {len(found)} possible routes but model_name wasn't provided.")
        return found[model_name or next(iter(found))]

    def _buffer(self, name: str, rank: int) -> Tensor:
        assert self.loaded_on_neuron, "Model must be loaded on neuron before calling these methods"
        for rows in (self.states, self.weights):
            if rank < len(rows) and name in rows[rank]:
                return device_side(rows[rank][name], rank)
        raise KeyError(f"Could not find neuron buffer: {name} in rank {rank}")

    def _slots(self, kind: str) -> list[Slot]:
        every = [slot for graph in self._graphs.values() for slot in graph.traced.metaneff.parameters]
        return list({slot.name: slot for slot in every if slot.kind == kind}.values())


def _zeros(slot: Slot) -> Tensor:
    return torch.zeros(slot.shape, dtype=getattr(torch, slot.dtype))

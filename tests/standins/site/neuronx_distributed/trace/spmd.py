"""Stand-in for trace.spmd; SDK document, section 3.3: the TorchScript that routes, holds shared weights and state.

Where it bites: no forward before an initialize; weights are taken by name, an unknown name is dropped and a missing
one is zeros, both without a word; states start at zero whatever the parameters held; an input shape that no graph was
traced for is a KeyError; of two graphs with equal input shapes the later one has the name.
"""

# mypy: disallow-untyped-defs=False, disallow-incomplete-defs=False, warn-return-any=False
from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

if TYPE_CHECKING:
    from neuron_standin.metaneff import MetaNeff, Slot

NOT_INITIALIZED = (
    "This model is not initialized, please call traced_model.nxd_model.initialize(sharded_checkpoint) "
    "or traced_model.nxd_model.initialize_with_saved_weights()"
)


class JITWrapper(nn.Module):
    """A Python flattener or packer as a module that can be traced."""

    def __init__(self, func: Any) -> None:
        super().__init__()
        self.func = func

    def forward(self, tensors: list[Tensor]) -> Any:
        """What the wrapped object makes of the tensors."""
        return self.func(tensors)


class Zeros(nn.Module):
    """Zeros of given shapes and dtypes by name, for every rank: how states start."""

    def __init__(self, slots: list[Slot], ranks: int) -> None:
        super().__init__()
        self.shapes = {slot.name: list(slot.shape) for slot in slots} or {"": [0]}
        self.dtypes = {slot.name: getattr(torch, slot.dtype) for slot in slots} or {"": torch.int32}
        self.ranks = ranks

    def forward(self) -> list[dict[str, Tensor]]:
        """One dict per rank."""
        result: list[dict[str, Tensor]] = []
        for _ in range(self.ranks):
            made: dict[str, Tensor] = {}
            for name, shape in self.shapes.items():
                made[name] = torch.zeros(shape, dtype=self.dtypes[name])
            result.append(made)
        return result


class SPMDBucketModelScript(nn.Module):
    """The graphs of one key: a NEFF per bucket, the same for all ranks."""

    def __init__(self, neffs: list[Tensor], metaneffs: list[Tensor], ranks: int) -> None:
        super().__init__()
        self.neffs, self.metaneffs, self.ranks = neffs, metaneffs, ranks

    def forward(
        self,
        inputs: list[Tensor],
        bucket: int,
        weights: list[dict[str, Tensor]],
        states: list[dict[str, Tensor]],
    ) -> list[Tensor]:
        """Rank 0's real outputs; every rank's states are updated."""
        return torch.ops.neuron.spmd_forward(
            self.neffs[bucket], self.metaneffs[bucket], inputs, weights, states, self.ranks
        )


class NxDModel(nn.Module):
    """All graphs with one set of weights and states, to be scripted."""

    def __init__(
        self,
        models: nn.ModuleDict,
        flattener_map: nn.ModuleDict,
        input_shape_map: dict[str, tuple[str, int]],
        packer: nn.Module,
        state_initializer: Zeros,
        weight_initializer: Zeros,
        start_rank_id: int,
    ) -> None:
        super().__init__()
        self.models, self.flattener_map, self.packer = models, flattener_map, packer
        self.input_shape_map = input_shape_map
        self.state_initializer, self.weight_initializer = state_initializer, weight_initializer
        self.weights = [{"__neuronprivatetensor__": torch.tensor(0)}]
        self.state = [{"__neuronprivatetensor__": torch.tensor(0)}]
        self.start_rank_id = start_rank_id
        self.initialized = False
        self.message = NOT_INITIALIZED

    @torch.jit.export
    def initialize(self, checkpoint: list[dict[str, Tensor]], start_rank_tensor: Tensor) -> None:
        """Put one dict of weights per rank on the device, and fresh states."""
        self.start_rank_id = torch.ops.aten.Int(start_rank_tensor)
        wanted = self.weight_initializer()
        if len(checkpoint) != len(wanted):
            raise RuntimeError("weights of " + str(len(checkpoint)) + " ranks for a model of " + str(len(wanted)))
        for rank, row in enumerate(wanted):
            for name in row.keys():  # noqa: SIM118 - TorchScript iterates over keys() only
                if name in checkpoint[rank]:
                    row[name] = checkpoint[rank][name]
        self.weights = torch.ops.neuron._parallel_load(wanted)
        self.state = torch.ops.neuron._parallel_load(self.state_initializer())
        self.initialized = True

    @torch.jit.export
    def initialize_with_saved_weights(self, start_rank_tensor: Tensor) -> None:
        """The same with the weights that were saved with the model."""
        self.initialize(self.weights, start_rank_tensor)

    @torch.jit.export
    def mock_initialization(self, mock: bool) -> None:
        """Let the tracer call a model that is not initialized."""
        self.initialized = mock

    @torch.jit.export
    def router(self, inputs: list[Tensor]) -> tuple[str, int]:
        """Key and bucket that were traced with inputs of exactly these shapes."""
        return self.input_shape_map[str([tensor.shape for tensor in inputs])]

    def forward(self, inputs: list[Tensor]):
        """Run the graph that fits the inputs; TorchScript takes the packer's type for what is returned."""
        key, bucket = self.router(inputs)
        if not self.initialized:
            raise ValueError(self.message)
        flat: list[Tensor] = []
        for name, flattener in self.flattener_map.items():
            if name == key:
                flat = flattener(inputs)
        result: list[Tensor] = []
        for name, model in self.models.items():
            if name == key:
                result = model(flat, bucket, self.weights, self.state)
        return self.packer(result)


class NxDModelExecutor(nn.Module):
    """Lets the traced model be called as model(*inputs)."""

    def __init__(self, nxd_model: Any) -> None:
        super().__init__()
        self.nxd_model = nxd_model

    def forward(self, *inputs: Tensor) -> Any:
        """The outputs of the graph that fits."""
        return self.nxd_model(list(inputs))


def real_outputs(metaneff: MetaNeff) -> list[Tensor]:
    """Zeros in the shape of the outputs that are no state."""
    found = [one for one in metaneff.outputs if one.alias < 0]
    return [torch.zeros(one.shape, dtype=getattr(torch, one.dtype)) for one in found]

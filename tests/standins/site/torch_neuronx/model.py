"""The traced module: NEFF and table as buffers, separated weights and states as ParameterLists (sections 2.1, 2.2)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from neuron_standin import ops, options
from neuron_standin.lowering import flat_inputs
from neuron_standin.metaneff import MetaNeff
from neuron_standin.runtime import disable_nrt_load
from torch import Tensor, nn
from torch.utils import _pytree

# Elements of the buffer `placement`.
START, COUNT, LAZY, ASYNC, DYNAMIC_BATCH = range(5)


@dataclass(frozen=True)
class Compiled:
    """What a trace produced; it can be sent to another process. `states`: their initial values."""

    neff: bytes
    metaneff: MetaNeff
    output_spec: Any
    weights: list[Tensor]
    states: list[Tensor]


class NeuronModel(nn.Module):
    """One `neuron::forward` around a NEFF; `returned`: aliased outputs are returned too."""

    neff: Tensor
    metaneff: Tensor
    placement: Tensor

    def __init__(self, compiled: Compiled, returned: bool) -> None:
        super().__init__()
        self._spec, self._returned = compiled.output_spec, returned
        self._aliased = any(one.alias >= 0 for one in compiled.metaneff.outputs)
        self.register_buffer("neff", ops.bytes_tensor(compiled.neff))
        self.register_buffer("metaneff", ops.bytes_tensor(compiled.metaneff.SerializeToString()))
        self.register_buffer("placement", torch.tensor([-1, 1, 0, 0, 0]))
        self.weights, self.states = _kept(compiled.weights), _kept(compiled.states)

    def forward(self, *inputs: Any) -> Any:
        """Real outputs: in the module's own structure without states, else flat, a single one bare."""
        flat, weights, states = flat_inputs(inputs), list(self.weights), list(self.states)
        outputs = torch.ops.neuron.forward(
            self.neff, self.metaneff, self.placement, flat, weights, states, self._returned
        )
        if not self._aliased or self._returned:
            return _pytree.tree_unflatten(list(outputs), self._spec)
        return outputs[0] if len(outputs) == 1 else tuple(outputs)


def _kept(tensors: Sequence[Tensor]) -> nn.ParameterList:
    return nn.ParameterList(nn.Parameter(one.detach().clone(), requires_grad=False) for one in tensors)


def create_neuron_model(compiled: Compiled, example_inputs: Any) -> torch.jit.ScriptModule:
    """The ScriptModule, on no core yet."""
    arguments = tuple(example_inputs) if isinstance(example_inputs, (list, tuple)) else (example_inputs,)
    model = NeuronModel(compiled, options.aliased_outputs_returned())
    with disable_nrt_load(), torch.no_grad():
        traced: torch.jit.ScriptModule = torch.jit.trace(  # type: ignore[no-untyped-call]
            model, arguments, strict=False, check_trace=False
        )
    return traced


def neuron_models(model: nn.Module) -> Iterator[Any]:
    """Every traced module in `model`, itself included."""
    names = {"neff", "metaneff", "placement"}
    return (one for one in model.modules() if names <= {name for name, _ in one.named_buffers(recurse=False)})


def only_model(model: nn.Module) -> Any:
    """The one traced module; ValueError when there is none or several."""
    found = list(neuron_models(model))
    if len(found) != 1:
        raise ValueError(f"a module made by torch_neuronx.trace is needed; this one holds {len(found)}")
    return found[0]

"""The step graph as the Neuron SDK wants a module: flat tensors in and out, and parameters for everything it must keep.

Departs from `recipes.stepgraph.StepGraph` in form only:
- buffers become parameters. The SDK's loaders fill parameters and nothing else, and a buffer (`layer_scalar`, the RoPE
  frequencies) would be folded into the graph with the value it has before any checkpoint is read;
- tensors come by position: the signature's inputs, then its states where the cache lives on the host;
- with the cache on the device the states are parameters of one ParameterList, in the order of the outputs that replace
  them, which is the same in every graph: the SDK tells states apart by their place in the module.
Outputs are always (logits, *states), in the order of `Signature.outputs`.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from ledger.errors import FoundryError
from recipes.forms import FORMS
from recipes.stepgraph import TORCH, StepGraph, weight_name
from serve.manifest import DType, Parameter, Signature

# Copies of the frequencies that only a RoPE which changes with the length would read.
_UNREAD = "_original_inv_freq"
_GRAPH = "step"


class StepModule(nn.Module):
    """One rank's step at the signature's shapes. Weights are on the meta device until `recipes.neuron.filling`."""

    # A subclass per signature has the real one: see `step_module`.
    forward: Callable[..., tuple[Tensor, ...]]

    def __init__(self, text_config: dict[str, Any], signature: Signature, tp: int, dtype: DType, kv: str) -> None:
        """Build from config.json's text_config; FoundryError when the signature is of another model."""
        super().__init__()
        graph = StepGraph(text_config, tp, dtype, FORMS["inf2"])
        _check_same(signature, tuple(graph.weights()))
        names = tuple(graph.weight_names())
        _buffers_to_parameters(graph)
        setattr(self, _GRAPH, graph)
        graph.requires_grad_(False)
        self.weight_keys = {weight_name(name): f"{_GRAPH}.{name}" for name in names}
        self._inputs = tuple(signature.named("input"))
        self._kept = tuple(output.name for output in signature.outputs if output.role == "state")
        self.states = nn.ParameterList()
        if kv == "device":
            states = signature.named("state")
            self.states.extend(nn.Parameter(zeros(states[name]), requires_grad=False) for name in self._kept)

    def run(self, tensors: tuple[Tensor, ...], given: tuple[str, ...]) -> tuple[Tensor, ...]:
        """One step on `tensors`, which are called `given`."""
        named = dict(zip(given, tensors, strict=True))
        inputs = {name: named.pop(name) for name in self._inputs}
        state = dict(zip(self._kept, self.states, strict=True)) if len(self.states) else named
        logits, new = getattr(self, _GRAPH)(inputs, state)
        return logits, *(new[name] for name in self._kept)

    def aliases(self) -> dict[nn.Parameter, int]:
        """The output that each state parameter takes over: output 0 are the logits."""
        return {state: 1 + index for index, state in enumerate(self.states)}


def step_module(text_config: dict[str, Any], signature: Signature, tp: int, dtype: DType, kv: str) -> StepModule:
    """A StepModule whose forward names every tensor: parts of the SDK read the signature, and refuse *args."""
    given = tuple(parameter.name for parameter in arguments(signature, kv))
    names = [name.replace(".", "_") for name in given]
    keyword = inspect.Parameter.POSITIONAL_OR_KEYWORD
    spoken = inspect.Signature([inspect.Parameter(name, keyword) for name in ("self", *names)])

    def forward(self: StepModule, *tensors: Tensor, **by_name: Tensor) -> tuple[Tensor, ...]:
        bound = spoken.bind(self, *tensors, **by_name)
        return self.run(bound.args[1:], given)

    forward.__signature__ = spoken  # type: ignore[attr-defined]
    made: type[StepModule] = type("Step", (StepModule,), {"forward": forward})
    return made(text_config, signature, tp, dtype, kv)


def arguments(signature: Signature, kv: str) -> list[Parameter]:
    """What a call of the graph takes, in its order: the inputs, and with the cache on the host the states."""
    roles = ("input",) if kv == "device" else ("input", "state")
    return [parameter for role in roles for parameter in signature.named(role).values()]


def example(signature: Signature, kv: str) -> tuple[Tensor, ...]:
    """Tensors of the shapes and dtypes that the graph is to be called with."""
    return tuple(zeros(parameter) for parameter in arguments(signature, kv))


def zeros(parameter: Parameter) -> Tensor:
    """A tensor of zeros on the host."""
    return torch.zeros(parameter.shape, dtype=TORCH[parameter.dtype])


def _buffers_to_parameters(graph: nn.Module) -> None:
    for module in graph.modules():
        for name, buffer in list(module.named_buffers(recurse=False)):
            delattr(module, name)
            if not name.endswith(_UNREAD):
                module.register_parameter(name, nn.Parameter(buffer, requires_grad=False))


def _check_same(signature: Signature, weights: tuple[Parameter, ...]) -> None:
    lowered = signature.named("weight")
    ours = {weight.name: weight for weight in weights}
    if lowered != ours:
        name = next(name for name in sorted({*lowered, *ours}) if lowered.get(name) != ours.get(name))
        raise FoundryError(
            f"graph {signature.graph}: weight {name} is {lowered.get(name)} as lowered and {ours.get(name)} here; "
            "accepted: config.json of the checkpoint that was lowered"
        )

"""A torch module to HLO through torch-xla, with the rules of aliases (sections 2.1, 2.2, 2.4 steps 1 to 3).

Parameters become placeholders: no weight is copied. Buffers, tensors that forward makes from Python data, and the
token of the collectives become constants of the HLO with the value they have now; no loader fills them (section 3.2).
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils import _pytree

from neuron_standin import hlo_edit
from neuron_standin.metaneff import Kind, MetaNeff, Result, Slot


@dataclass(frozen=True)
class Lowered:
    """A graph, what its parameters are, and the structure (a pytree spec) of what the module returned."""

    hlo: bytes
    metaneff: MetaNeff
    output_spec: Any


class _Function(nn.Module):
    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self._function = function

    def forward(self, *inputs: Any) -> Any:
        return self._function(*inputs)


def dtype_name(tensor: Tensor) -> str:
    """`float32` for torch.float32."""
    return str(tensor.dtype).removeprefix("torch.")


def flat_inputs(example_inputs: Any) -> list[Tensor]:
    """The tensors of nested lists and tuples, in order; TypeError for anything else."""
    flat = _pytree.tree_leaves(example_inputs)
    for number, one in enumerate(flat):
        if not isinstance(one, Tensor):
            raise TypeError(
                f"example input {number} is {type(one).__name__}; only tensors in lists and tuples are traced"
            )
    return flat


def states_of(module: nn.Module, aliases: Mapping[nn.Parameter, int]) -> dict[str, int]:
    """Name of each state to its output index, in the order of the module's parameters (not of the dict)."""
    named = {id(parameter): name for name, parameter in module.named_parameters()}
    buffers = {id(buffer): name for name, buffer in module.named_buffers()}
    found: dict[str, int] = {}
    for key, index in aliases.items():
        if id(key) in buffers:
            raise ValueError(f"alias key is the buffer {buffers[id(key)]!r}; only nn.Parameter objects can be aliased")
        if not isinstance(key, nn.Parameter) or id(key) not in named:
            raise ValueError(
                "alias key is not a parameter of the module that is traced (the object itself is compared)"
            )
        found[named[id(key)]] = index
    if len(set(found.values())) != len(found):
        raise ValueError(f"two aliases name the same output: {sorted(found.values())}")
    return {name: found[name] for name in named.values() if name in found}


def prepare_torch_xla() -> Any:
    """torch_xla with settings that must precede its import; the lowering module itself."""
    os.environ.setdefault("PJRT_DEVICE", "CPU")
    os.environ.setdefault("XLA_ALWAYS_ALLREDUCE", "1")
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "1")
    import torch._inductor.config

    torch._inductor.config.compile_threads = 1
    import torch_xla

    torch_xla._XLAC._set_xla_all_numbers_special_scalars(True)
    # One token runs through all collectives of a process: without this, a graph would drag in the one before.
    torch_xla._XLAC._set_all_reduce_token(str(torch_xla.device()), None)
    return torch_xla


def lower(
    func: nn.Module | Callable[..., Any],
    example_inputs: Any,
    aliases: Mapping[nn.Parameter, int] | None = None,
    *,
    preserve_parameters: bool = False,
) -> Lowered:
    """The graph of `func` on inputs of these shapes; several may be lowered in one process.

    User inputs come first, then weights, then states. With `preserve_parameters`, weights that the
    graph does not use are parameters too. ValueError or RuntimeError for what section 2.2 forbids.
    """
    flat = flat_inputs(example_inputs)
    if aliases and not isinstance(func, nn.Module):
        raise TypeError("input_output_aliases need an nn.Module, not a plain function")
    module = func if isinstance(func, nn.Module) else _Function(func)
    states = states_of(module, aliases or {})
    torch_xla = prepare_torch_xla()
    from torch_xla.core.xla_builder import create_placeholder_tensor

    def placeholder(tensor: Tensor) -> Tensor:
        made: Tensor = create_placeholder_tensor(tuple(tensor.shape), tensor.dtype)
        return made

    inputs = [placeholder(one) for one in flat]
    parameters = {name: placeholder(one) for name, one in module.named_parameters()}
    buffers = {name: one.detach().to(torch_xla.device()) for name, one in module.named_buffers()}
    arguments = _pytree.tree_unflatten(inputs, _pytree.tree_structure(example_inputs))
    arguments = tuple(arguments) if isinstance(arguments, (list, tuple)) else (arguments,)
    with torch.no_grad():
        returned = torch.func.functional_call(module, {**parameters, **buffers}, arguments)
    outputs, spec = _pytree.tree_flatten(returned)
    for number, one in enumerate(outputs):
        if not isinstance(one, Tensor) or one.device.type != "xla":
            raise RuntimeError(f"output {number} is not computed by the graph: {type(one).__name__}")
    _check_aliases(states, parameters, outputs)
    context = torch_xla._XLAC.lowering.LoweringContext("SyncTensorsGraph")
    context.build(outputs)
    slots = _slots(context, inputs, parameters, states)
    values = {
        number: _little_endian(tensor.cpu())
        for number, tensor in context.device_parameter_id_tensor_mapping().items()
        if not torch_xla._XLAC._is_placecholder(tensor)
    }
    order = [*slots, *values]
    data = hlo_edit.reordered(context.hlo(), order)
    data = hlo_edit.with_constants(data, {order.index(number): value for number, value in values.items()})
    unused = _unused(module, slots, preserve_parameters)
    data = hlo_edit.with_unused_parameters(data, [(slot.name, slot.dtype, slot.shape) for slot in unused])
    all_slots = (*slots.values(), *unused)
    buffers_of = {states[slot.name]: number for number, slot in enumerate(all_slots) if slot.kind == "state"}
    results = tuple(Result(dtype_name(o), tuple(o.shape), buffers_of.get(i, -1)) for i, o in enumerate(outputs))
    metaneff = MetaNeff(all_slots, results, user_inputs=len(inputs))
    return Lowered(hlo_edit.with_aliases(data, buffers_of), metaneff, spec)


def _little_endian(tensor: Tensor) -> bytes:
    return tensor.contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()


def _check_aliases(states: Mapping[str, int], parameters: Mapping[str, Tensor], outputs: list[Tensor]) -> None:
    for name, index in states.items():
        if not 0 <= index < len(outputs):
            raise ValueError(f"alias of {name!r} names output {index}; the module returns {len(outputs)} flat outputs")
        state, output = parameters[name], outputs[index]
        if (state.dtype, state.shape) != (output.dtype, output.shape):
            raise RuntimeError(
                f"state {name!r} is {dtype_name(state)}{list(state.shape)} but its output {index} is "
                f"{dtype_name(output)}{list(output.shape)}; aliased buffers must be equal"
            )


def _slots(
    context: Any, inputs: list[Tensor], parameters: Mapping[str, Tensor], states: Mapping[str, int]
) -> dict[int, Slot]:
    """What each HLO parameter is, by its number, in the order that parameters will have; constants are left out."""

    def slot(kind: Kind, name: str, index: int, tensor: Tensor) -> Slot:
        return Slot(kind, name, index, dtype_name(tensor), tuple(tensor.shape))

    found: dict[int, Slot] = {}
    for index, tensor in enumerate(inputs):
        number = context.tensor_parameter_id(tensor)
        if number < 0:
            warnings.warn(f"user input {index} is not used by the graph: it is dropped", UserWarning, stacklevel=4)
        else:
            found[number] = slot("input", "", index, tensor)
    for name in [*(name for name in parameters if name not in states), *states]:
        kind: Kind = "state" if name in states else "weight"
        number = context.tensor_parameter_id(parameters[name])
        if number >= 0:
            found[number] = slot(kind, name, -1, parameters[name])
        elif kind == "state":
            raise RuntimeError(f"state {name!r} influences no output: it would be eliminated from the graph")
    return found


def _unused(module: nn.Module, slots: Mapping[int, Slot], preserve: bool) -> list[Slot]:
    used = {slot.name for slot in slots.values()}
    unused = [(name, one) for name, one in module.named_parameters() if name not in used] if preserve else []
    return [Slot("weight", name, -1, dtype_name(one), tuple(one.shape)) for name, one in unused]

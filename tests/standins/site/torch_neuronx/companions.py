"""Companion functions of a traced module (section 2.3, state replacement in 3.6 point 1)."""

from __future__ import annotations

import warnings
from collections.abc import Mapping

import torch
from neuron_standin import ops, runtime
from neuron_standin.metaneff import MetaNeff
from torch import Tensor, nn

from torch_neuronx.model import ASYNC, DYNAMIC_BATCH, LAZY, only_model


def move_trace_to_device(trace: nn.Module, device_id: int) -> None:
    """Replace separated weights and states by new tensors on the device: references from before are orphans."""
    model = only_model(trace)
    cores = runtime.init()
    if not 0 <= device_id < len(cores):
        raise RuntimeError(f"device id {device_id} is out of range; this process has {len(cores)} NeuronCores")
    for kept in (model.weights, model.states):
        for name, one in list(kept.named_parameters()):
            kept._parameters[name] = ops.on_device(one, device_id)


def replace_weights(neuron_model: nn.Module, weights: nn.Module | Mapping[str, Tensor]) -> None:
    """New values for separated weights, by name; a warning and no effect when they are inlined."""
    model = only_model(neuron_model)
    metaneff = MetaNeff.FromString(ops.tensor_bytes(model.metaneff))
    kept = dict(model.weights.named_parameters())
    if not kept:
        warnings.warn("the weights are inlined in the NEFF: replace_weights has no effect", UserWarning, stacklevel=2)
        return
    given = dict(weights.named_parameters()) if isinstance(weights, nn.Module) else dict(weights)
    for index, number in enumerate(metaneff.numbers("weight")):
        name = metaneff.parameters[number].name
        if name in given:
            model.weights._parameters[str(index)] = given[name].detach().clone()


def lazy_load(trace: nn.Module, enable_lazy_load: bool = True) -> None:
    """Load at the first call, not at torch.jit.load; before saving."""
    only_model(trace).placement[LAZY] = int(enable_lazy_load)


def async_load(trace: nn.Module, enable_async_load: bool = True) -> None:
    """Kept with the model; the stand-in loads in no time."""
    only_model(trace).placement[ASYNC] = int(enable_async_load)


def dynamic_batch(neuron_script: torch.jit.ScriptModule) -> torch.jit.ScriptModule:
    """Any batch on dimension 0 of every input and output, in place; RuntimeError for a model with state."""
    model = only_model(neuron_script)
    if list(model.states.parameters()):
        raise RuntimeError("dynamic_batch cannot be used with aliased state: slices would share it")
    model.placement[DYNAMIC_BATCH] = 1
    return neuron_script

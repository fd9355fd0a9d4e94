"""torch.jit.load puts a model on a NeuronCore (section 2.1), unless lazy_load or disable_nrt_load say otherwise."""

from __future__ import annotations

from typing import Any

import torch
from neuron_standin import ops, runtime

from torch_neuronx import experimental
from torch_neuronx.model import LAZY, START, neuron_models

_load: Any = torch.jit.load


def load(*arguments: Any, **named: Any) -> torch.jit.ScriptModule:
    """torch.jit.load as `import torch_neuronx` leaves it."""
    loaded: torch.jit.ScriptModule = _load(*arguments, **named)
    if runtime.load_disabled():
        return loaded
    for one in neuron_models(loaded):
        if experimental.placement is not None:
            one.placement[START : START + 2] = torch.tensor(experimental.placement)
        if not one.placement[LAZY]:
            ops.load(one.neff, one.metaneff, one.placement)
    return loaded


torch.jit.load = load

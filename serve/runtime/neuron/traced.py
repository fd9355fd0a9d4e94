"""Builder trace: a file of torch_neuronx.trace per graph, weights inside, one core.

With kv host the state is tensors of the host, given to each call and returned by it. With kv device it is inside the
model: one graph only, as two would have a state each, and none of it is ever looked at or reset from here. A reference
to it that is older than the first call may be orphaned by that call.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from serve.manifest import GraphName, Manifest
from serve.runtime.neuron.program import Program, script
from serve.runtime.neuron.tensors import leading, over, zeros


class HostState:
    """Graphs that take the state after their inputs and return it after the logits, each in an order of its own."""

    def __init__(self, models: dict[GraphName, Any], manifest: Manifest) -> None:
        self._models = models
        signatures = {name: graph.signature for name, graph in manifest.graphs.items()}
        self._takes = {name: tuple(signature.named("state")) for name, signature in signatures.items()}
        self._gives = {
            name: tuple(output.name for output in signature.outputs if output.role == "state")
            for name, signature in signatures.items()
        }
        states = manifest.step.signature.named("state")
        self._state = {name: over(zeros(state)) for name, state in states.items()}

    def __call__(self, graph: GraphName, inputs: Sequence[torch.Tensor]) -> torch.Tensor:
        """Logits [B, V]; the state moves on."""
        gives = self._gives[graph]
        result = self._models[graph](*inputs, *(self._state[name] for name in self._takes[graph]))
        logits, *states = leading(result, 1 + len(gives))
        self._state = dict(zip(gives, states, strict=True))
        return logits


class DeviceState:
    """One graph whose state stays where it is."""

    def __init__(self, model: Any) -> None:
        self._model = model

    def __call__(self, graph: GraphName, inputs: Sequence[torch.Tensor]) -> torch.Tensor:
        """Logits [B, V]."""
        return leading(self._model(*inputs), 1)[0]


def load(sdk: Any, folder: Path, manifest: Manifest) -> Program:
    """Load every graph's file."""
    models = {name: script(folder, graph.modules[0]) for name, graph in manifest.graphs.items()}
    if manifest.variant.kv == "host":
        return HostState(models, manifest)
    # Without this the state would be copied to the device at every call.
    sdk.move_trace_to_device(models["prefill"], 0)
    return DeviceState(models["prefill"])

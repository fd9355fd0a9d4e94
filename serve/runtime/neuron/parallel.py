"""Builder parallel: a folder with a file per rank of neuronx_distributed's parallel_model_trace, weights inside.

One graph for prefill and decode, as each would have a state of its own. The first call loads the ranks and replaces
their state tensors, so no reference to one is kept here.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from serve.errors import ServeError
from serve.manifest import GraphName, Manifest, locate
from serve.runtime.neuron.checks import imported
from serve.runtime.neuron.environment import stand_for_fx
from serve.runtime.neuron.program import Program
from serve.runtime.neuron.status import explained
from serve.runtime.neuron.tensors import leading


class Parallel:
    """All ranks of one graph behind one call."""

    def __init__(self, model: Any) -> None:
        self._model = model

    def __call__(self, graph: GraphName, inputs: Sequence[torch.Tensor]) -> torch.Tensor:
        """Logits [B, V] of the rank that was first; all have the same."""
        return leading(self._model(*inputs), 1)[0]


def load(_sdk: Any, folder: Path, manifest: Manifest) -> Program:
    """Load the ranks' files; ServeError when their folder holds others, as the SDK loads whatever is there."""
    paths = [locate(folder, ref) for ref in manifest.graphs["prefill"].modules]
    accepted = [f"tp_{rank}.pt" for rank in range(manifest.variant.tp)]
    found = sorted(path.name for path in paths[0].parent.iterdir())
    if found != sorted(accepted):
        raise ServeError(f"{paths[0].parent}: found {', '.join(found)}; accepted: {', '.join(accepted)}, all and only")
    stand_for_fx(sys.modules)
    versions = manifest.neuron.versions if manifest.neuron else {}
    nxd = imported("neuronx-distributed", "neuronx_distributed.trace", "parallel_model_load", versions)
    with explained(str(paths[0].parent)):
        return Parallel(nxd.parallel_model_load(str(paths[0].parent)))

"""Builder nxd: one TorchScript file of ModelBuilder for all graphs and ranks; weights beside it, state shared by name.

The weight files are the ranks' own, mapped and never copied on the host. What the SDK's loader does not know it drops,
and what it misses it may leave at zero, both without an error, so names, shapes and dtypes are compared here first.
The SDK's own names are the manifest's word (`neuron.weight_keys`): nothing documented tells what a saved model calls
its weights. The manifest's digest, the artifact's name, covers them; a manifest that lies about them is found out by
the self-check when the server starts, not here.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from serve.errors import ServeError
from serve.manifest import MANIFEST, GraphName, Manifest, Parameter, locate
from serve.runtime.neuron.environment import stand_for_fx
from serve.runtime.neuron.program import Program, script
from serve.runtime.neuron.tensors import leading, over
from serve.tensorfile import TensorFile


class Spmd:
    """A model that finds the graph by the shapes of its inputs and answers for all ranks."""

    def __init__(self, model: Any) -> None:
        self._model = model
        # The outer module was traced with the inputs of one graph and takes as many; the one inside takes a list.
        schema = getattr(model.forward, "schema", None)
        self._takes = None if schema is None else len(schema.arguments) - 1

    def __call__(self, graph: GraphName, inputs: Sequence[torch.Tensor]) -> torch.Tensor:
        """Logits [B, V] of rank 0; all ranks have the same."""
        outer = self._takes in (None, len(inputs))
        result = self._model(*inputs) if outer else self._model.nxd_model(list(inputs))
        return leading(result, 1)[0]


def load(_sdk: Any, folder: Path, manifest: Manifest) -> Program:
    """Load the model and give each rank its weights; ServeError when those are not exactly what the graphs need."""
    keys = weight_keys(folder, manifest)
    ranks = [rank_weights(locate(folder, ref), manifest, keys) for ref in manifest.weights]
    ref = manifest.graphs["prefill"].modules[0]
    # The documentation names neuronx_distributed beside ModelBuilder's files: if loading one imports it, it may.
    stand_for_fx(sys.modules)
    model = script(folder, ref)
    if not hasattr(model, "nxd_model"):
        raise ServeError(f"{folder / ref.path}: found no nxd_model; accepted: a file that ModelBuilder's model made")
    model.nxd_model.initialize(ranks, torch.tensor([0], dtype=torch.int32))
    return Spmd(model)


def weight_keys(folder: Path, manifest: Manifest) -> dict[str, str]:
    """The SDK's name of each weight, by its stored name; ServeError unless that is one to one for every weight."""
    wanted, keys = _weights(manifest), manifest.neuron.weight_keys if manifest.neuron else {}
    where = f"{folder / MANIFEST}: neuron.weight_keys"
    _same(where, keys, wanted, "the weights of its graphs")
    if len(set(keys.values())) < len(keys):
        twice = next(key for key in keys.values() if list(keys.values()).count(key) > 1)
        raise ServeError(f"{where}: found {twice} twice; accepted: a name of its own for each weight")
    return keys


def rank_weights(path: Path, manifest: Manifest, keys: Mapping[str, str]) -> dict[str, torch.Tensor]:
    """One rank's weights under the SDK's names; ServeError unless they are those of the signatures, all and only."""
    file, wanted = TensorFile(path), _weights(manifest)
    _same(str(path), file.names(), wanted, "the weights of the graphs")
    for name, parameter in wanted.items():
        found, accepted = f"{file[name].dtype} {file[name].shape}", f"{parameter.dtype} {parameter.shape}"
        if found != accepted:
            raise ServeError(f"{path}: weight {name} is {found}; the graphs accept {accepted}")
    return {keys[name]: over(file[name]) for name in wanted}


def _weights(manifest: Manifest) -> dict[str, Parameter]:
    graphs = manifest.graphs.values()
    return {name: weight for graph in graphs for name, weight in graph.signature.named("weight").items()}


def _same(where: str, found: Sequence[str] | Mapping[str, str], wanted: Mapping[str, Parameter], what: str) -> None:
    missing, extra = sorted(set(wanted) - set(found)), sorted(set(found) - set(wanted))
    if missing or extra:
        difference = f"no {missing[0]}" if missing else f"{extra[0]}, which no graph has"
        raise ServeError(f"{where}: found {difference}; accepted: {what}, all and only")

"""`Runtime` over NeuronCores: input arrays that a loaded program reads, and logits that numpy can read."""

from __future__ import annotations

import gc

import numpy as np
import numpy.typing as npt
import torch

from serve.errors import ServeError
from serve.manifest import GraphName, Manifest
from serve.runtime import Inputs
from serve.runtime.neuron.program import Program
from serve.runtime.neuron.status import explained
from serve.runtime.neuron.tensors import over, zeros


class NeuronRuntime:
    """A program that has run every graph once. The first run of a graph is slow and may replace what was loaded."""

    def __init__(self, manifest: Manifest, program: Program) -> None:
        """Run each graph on zeros, which select no row and so write no state.

        ServeError when what comes back is not the logits that the manifest promises.
        """
        self._program: Program | None = program
        self._inputs = {
            name: {parameter: zeros(shape) for parameter, shape in graph.signature.named("input").items()}
            for name, graph in manifest.graphs.items()
        }
        self._tensors = {name: [over(array) for array in inputs.values()] for name, inputs in self._inputs.items()}
        for name, graph in manifest.graphs.items():
            accepted = next(output.shape for output in graph.signature.outputs if output.role == "logits")
            found = self.step(name).shape
            if found != accepted:
                raise ServeError(f"the {name} graph returned logits {list(found)}; accepted: {list(accepted)}")

    def inputs(self, graph: GraphName) -> Inputs:
        """The input arrays of a graph."""
        return self._inputs[graph]

    def step(self, graph: GraphName) -> npt.NDArray[np.float32]:
        """One step; logits [B, V]. ServeError saying what the device's status means when it fails."""
        if self._program is None:
            raise ServeError("the runtime is closed; accepted: a step before that")
        with explained(f"the {graph} graph"), torch.no_grad():
            # To the host first: a device tensor cannot be cast.
            self._logits = self._program(graph, self._tensors[graph]).detach().cpu().float()
        logits: npt.NDArray[np.float32] = self._logits.numpy()
        return logits

    def close(self) -> None:
        """Drop the program; its cores stay with the process until that ends, as the SDK offers no other way."""
        self._program = None
        gc.collect()

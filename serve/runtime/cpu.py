"""Target cpu: the step graphs on XLA:CPU, a device per rank, weights used where the page cache holds them.

Weights are memory-mapped and handed over in place; state buffers are donated to each step, whose outputs take over
their memory, so a step copies no KV; inputs are fixed arrays that the engine writes into and all ranks read.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from serve.errors import ServeError
from serve.manifest import Graph, GraphName, Manifest, Signature, locate
from serve.runtime import Inputs
from serve.runtime.host import cpu_features
from serve.runtime.pjrt import Client, Program, aligned_zeros, to_numpy
from serve.tensorfile import NUMPY, TensorFile


class _Loaded:
    """One graph: its program, fixed inputs, and the argument list that each step completes with the state."""

    def __init__(
        self, program: Program, signature: Signature, client: Client, weights: dict[str, Any], ranks: int
    ) -> None:
        self.program = program
        self.inputs: dict[str, npt.NDArray[np.generic]] = {}
        self.arguments: list[Any] = []
        self.states: list[tuple[int, str]] = []
        for number, parameter in enumerate(signature.parameters):
            buffer = None
            if parameter.role == "weight":
                buffer = weights[parameter.name]
            elif parameter.role == "state":
                self.states.append((number, parameter.name))
            else:
                array = aligned_zeros(parameter.shape, NUMPY[parameter.dtype])
                buffer = client.put([array] * ranks)
                if parameter.role == "input":
                    self.inputs[parameter.name] = array
            self.arguments.append(buffer)
        names = dict(self.states)
        self.logits = next(i for i, output in enumerate(signature.outputs) if output.role == "logits")
        self.new_states = [(output, names[parameter]) for output, parameter in signature.aliases.items()]


class CpuRuntime:
    """`Runtime` over XLA:CPU."""

    def __init__(self, folder: Path, manifest: Manifest) -> None:
        """Load the artifact in `folder`; ServeError when a file or a weight is missing or damaged."""
        ranks = manifest.variant.tp
        files = []
        for ref in manifest.weights:
            path = locate(folder, ref)
            files.append(TensorFile(path))
            self._check_weights(path, manifest, files[-1])
        client = Client(ranks)
        weights = {name: client.put([file[name] for file in files]) for name in files[0].names()}
        self._files = files
        self._graphs = {
            name: _Loaded(_program(client, folder, graph), graph.signature, client, weights, ranks)
            for name, graph in manifest.graphs.items()
        }
        states = manifest.step.signature.named("state")
        self._state = {
            name: client.put([aligned_zeros(state.shape, NUMPY[state.dtype]) for _ in range(ranks)])
            for name, state in states.items()
        }

    @staticmethod
    def _check_weights(path: Path, manifest: Manifest, file: TensorFile) -> None:
        found = {name: f"{file[name].dtype} {file[name].shape}" for name in file.names()}
        for graph in manifest.graphs.values():
            for name, parameter in graph.signature.named("weight").items():
                accepted = f"{parameter.dtype} {parameter.shape}"
                if found.get(name) != accepted:
                    raise ServeError(
                        f"{path}: weight {name} is {found.get(name, 'missing')}; "
                        f"the {graph.signature.graph} graph accepts {accepted}"
                    )

    def inputs(self, graph: GraphName) -> Inputs:
        """The input arrays of a graph."""
        return self._graphs[graph].inputs

    def step(self, graph: GraphName) -> npt.NDArray[np.float32]:
        """One step; logits [B, V]."""
        loaded = self._graphs[graph]
        arguments = loaded.arguments.copy()
        for number, name in loaded.states:
            arguments[number] = self._state[name]
        results = loaded.program.run(arguments)
        for output, name in loaded.new_states:
            self._state[name] = results[output]
        self._logits = results[loaded.logits]
        return to_numpy(self._logits)  # type: ignore[return-value]

    def close(self) -> None:
        """Drop every buffer."""
        self._graphs.clear()
        self._state.clear()


def _program(client: Client, folder: Path, graph: Graph) -> Program:
    """The stored executable where this CPU can run it, else the module compiled here; ServeError when it is none."""
    stored = graph.executable if set(graph.cpu_features) <= set(cpu_features()) else None
    path = locate(folder, stored or graph.modules[0])
    content = path.read_bytes()
    try:
        return client.load(content if stored else client.compile(content, graph.flags))
    except Exception as error:  # XLA's own kinds, of no public name
        said = next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)
        raise ServeError(f"{path}: XLA:CPU cannot load it ({said}); accepted: a graph built for target cpu") from error

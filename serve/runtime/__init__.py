"""What an engine asks of a device, and the choice of the runtime that answers."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

import numpy as np
import numpy.typing as npt

from serve.errors import ServeError
from serve.manifest import MANIFEST, GraphName, Manifest

Inputs = Mapping[str, npt.NDArray[np.generic]]


class Runtime(Protocol):
    """Compiled graphs with their weights and KV state on a device."""

    def inputs(self, graph: GraphName) -> Inputs:
        """The input arrays of a graph, to be filled in place before each step; the same arrays for good."""
        ...

    def step(self, graph: GraphName) -> npt.NDArray[np.float32]:
        """Run one step on the current inputs and the state; logits [B, V], valid until the next step."""
        ...

    def close(self) -> None:
        """Release the device; the runtime is not used afterwards."""
        ...


def load(folder: Path, manifest: Manifest) -> Runtime:
    """The runtime for the artifact's target; ServeError when this host has none."""
    point = manifest.variant
    if point.target == "cpu":
        if point.builder != "xla":
            raise ServeError(
                f"{folder / MANIFEST}: variant.target: found cpu with variant.builder {point.builder}; "
                "accepted: inf2, or builder xla"
            )
        from serve.runtime.cpu import CpuRuntime

        return CpuRuntime(folder, manifest)
    from serve.runtime import neuron

    return neuron.load(folder, manifest)

"""What the three builders' loaders have in common: graphs that take input tensors and return logits."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

import torch

from serve.manifest import FileRef, GraphName, locate
from serve.runtime.neuron.status import explained


class Program(Protocol):
    """An artifact's graphs on the device, with their weights and state."""

    def __call__(self, graph: GraphName, inputs: Sequence[torch.Tensor]) -> torch.Tensor:
        """Run a graph on its input parameters, in signature order; logits [B, V]."""
        ...


def script(folder: Path, ref: FileRef) -> Any:
    """The TorchScript file behind `ref`; the SDK, imported before, has taught torch what is in it.

    ServeError naming the file when it is none.
    """
    path = str(locate(folder, ref))
    with explained(path):
        return torch.jit.load(path)  # type: ignore[no-untyped-call]

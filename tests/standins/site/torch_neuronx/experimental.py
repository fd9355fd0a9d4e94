"""torch_neuronx.experimental placement (section 2.3); the multicore forms are not stood in for."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from torch import nn

from torch_neuronx.model import COUNT, START, only_model

placement: tuple[int, int] | None = None


def set_neuron_cores(trace: nn.Module, start_nc: int = -1, nc_count: int = -1) -> None:
    """Where the model will be loaded; -1 leaves the choice to the runtime."""
    model = only_model(trace)
    if hasattr(model.neff, "standin_cores"):
        raise RuntimeError("the model is on its core already")
    model.placement[START], model.placement[COUNT] = start_nc, max(nc_count, 1)


@contextmanager
def neuron_cores_context(start_nc: int = -1, nc_count: int = -1) -> Iterator[None]:
    """Placement of what torch.jit.load loads inside; not thread-safe, as documented."""
    global placement  # noqa: PLW0603 - documented as process-wide
    before, placement = placement, (start_nc, max(nc_count, 1))
    try:
        yield
    finally:
        placement = before

"""Stand-in for trace.mock_torchdist; SDK document, section 3.3: one process that passes for one rank of many."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import torch
from neuron_standin.lowering import prepare_torch_xla

from neuronx_distributed.parallel_layers import mappings


class MockDistributed(SimpleNamespace):
    """torch.distributed as the tracing process sees it; what is not mocked is the library's own."""

    def __init__(self, world_size: int, rank: int = 0) -> None:
        super().__init__(_real=torch.distributed, _world=world_size, _rank=rank)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)

    def is_initialized(self) -> bool:
        """It always is."""
        return True

    def init_process_group(self, backend: str, rank: int = 0, world_size: int = 1) -> None:
        """Take the sizes; no process is asked."""
        self._rank, self._world = rank, world_size

    def get_rank(self, group: Any = None) -> int:
        """The rank that is played."""
        return group.rank() if group is not None else self._rank

    def get_world_size(self, group: Any = None) -> int:
        """Ranks of the group, or of the world."""
        return group.size() if group is not None else self._world

    def all_reduce(self, tensor: torch.Tensor, *_: Any, **__: Any) -> None:
        """In place, and in the graph."""
        mappings.reduce_from_tensor_model_parallel_region(tensor)

    def all_gather(self, tensor_list: list[torch.Tensor], *_: Any, **__: Any) -> None:
        """Disappears when traced: the outputs stay the zeros they were (section 3.3)."""

    def destroy_process_group(self, group: Any = None) -> None:
        """Nothing to end."""


@contextmanager
def mock_distributed(world_size: int, rank: int = 0) -> Iterator[None]:
    """Inside, torch.distributed says `rank` of `world_size`."""
    prepare_torch_xla()
    with (
        patch("torch.distributed", MockDistributed(world_size, rank)),
        patch("torch_xla.runtime.world_size", return_value=world_size),
    ):
        yield

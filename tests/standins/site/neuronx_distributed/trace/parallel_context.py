"""Stand-in for trace.parallel_context; SDK document, section 3.4: a parallel state for the length of a block."""

from __future__ import annotations

from contextlib import ExitStack
from types import TracebackType
from typing import Any

import torch

from neuronx_distributed.parallel_layers import parallel_state
from neuronx_distributed.trace.mock_torchdist import mock_distributed


class NxDParallelState:
    """One rank's parallel state, in a mocked world unless a real one is there."""

    def __init__(
        self,
        world_size: int = 1,
        rank: int = 0,
        tensor_model_parallel_size: int = 1,
        pipeline_model_parallel_size: int = 1,
        context_parallel_size: int = 1,
        expert_model_parallel_size: int = 1,
        lnc_size: int | None = None,
    ) -> None:
        self._world, self._rank = world_size, rank
        self._sizes: dict[str, Any] = {
            "tensor_model_parallel_size": tensor_model_parallel_size,
            "pipeline_model_parallel_size": pipeline_model_parallel_size,
            "context_parallel_size": context_parallel_size,
            "expert_model_parallel_size": expert_model_parallel_size,
            "lnc_size": lnc_size or 1,
        }
        self._stack = ExitStack()

    def __enter__(self) -> NxDParallelState:
        if not torch.distributed.is_initialized():
            self._stack.enter_context(mock_distributed(self._world, self._rank))
        parallel_state.initialize_model_parallel(**self._sizes, skip_collective_init=True)
        parallel_state.set_aot_mode(True)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        parallel_state.set_aot_mode(False)
        parallel_state.destroy_model_parallel()
        self._stack.close()

"""Stand-in for parallel_layers.mappings; SDK document, section 3.5: collectives that stay in the traced graph.

One rank alone is a bypass, as in the SDK: no collective is in a graph of tp 1. On CPU tensors the shapes are right and
the values are this rank's alone.
"""

from __future__ import annotations

import torch
from torch import Tensor

from . import parallel_state


def reduce_from_tensor_model_parallel_region(input_: Tensor) -> Tensor:
    """The sum of `input_` over the ranks; in place, as in the SDK."""
    if parallel_state.get_tensor_model_parallel_size() == 1 or input_.device.type != "xla":
        return input_
    import torch_xla.core.xla_model as xm

    groups = parallel_state.get_tensor_model_parallel_replica_groups()
    xm.all_reduce(xm.REDUCE_SUM, [input_], groups=groups, pin_layout=False)
    return input_


def copy_to_tensor_model_parallel_region(input_: Tensor) -> Tensor:
    """`input_`; only a backward pass would add something."""
    return input_


def gather_from_tensor_model_parallel_region(input_: Tensor) -> Tensor:
    """The ranks' `input_` side by side along the last dimension."""
    size = parallel_state.get_tensor_model_parallel_size()
    if size == 1 or input_.device.type != "xla":
        return torch.cat([input_] * size, dim=-1)
    import torch_xla.core.xla_model as xm

    groups = parallel_state.get_tensor_model_parallel_replica_groups()
    gathered: Tensor = xm.all_gather(input_, dim=input_.dim() - 1, groups=groups, pin_layout=False)
    return gathered


def scatter_to_tensor_model_parallel_region(input_: Tensor) -> Tensor:
    """This rank's part of the last dimension, by the Python rank number: frozen when traced."""
    size, rank = parallel_state.get_tensor_model_parallel_size(), parallel_state.get_tensor_model_parallel_rank()
    return input_.chunk(size, dim=-1)[rank].contiguous() if size > 1 else input_

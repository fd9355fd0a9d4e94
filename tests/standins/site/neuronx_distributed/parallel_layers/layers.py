"""Stand-in for parallel_layers.layers; SDK document, section 3.5: the rank tensor and the two parallel Linears.

Only the keyword arguments that say what is computed are taken; an unknown one is a TypeError.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from . import mappings, parallel_state


def set_tensor_model_parallel_attributes(
    tensor: Tensor, is_parallel: bool, dim: int, stride: int, num_partitions: int
) -> None:
    """What the checkpoint's sharding reads to cut a parameter."""
    vars(tensor).update(
        tensor_model_parallel=is_parallel, partition_dim=dim, partition_stride=stride, num_partitions=num_partitions
    )


def _parallel(shape: tuple[int, ...], dim: int, dtype: torch.dtype, device: torch.device | None) -> nn.Parameter:
    size = parallel_state.get_tensor_model_parallel_size()
    if shape[dim] % size:
        raise AssertionError(f"{shape[dim]} is not divisible by {size}")
    local = [n // size if axis == dim else n for axis, n in enumerate(shape)]
    weight = nn.Parameter(torch.zeros(local, dtype=dtype, device=device), requires_grad=False)
    set_tensor_model_parallel_attributes(weight, True, dim, 1, size)
    return weight


class BaseParallelLinear(nn.Module):
    """What the two have in common."""


class ColumnParallelLinear(BaseParallelLinear):
    """A Linear whose output columns are divided among the ranks; default dtype float32."""

    def __init__(
        self,
        input_size: int,
        output_size: int,
        bias: bool = True,
        gather_output: bool = True,
        dtype: torch.dtype = torch.float32,
        device: torch.device | None = None,
    ) -> None:
        super().__init__()
        self.weight = _parallel((output_size, input_size), 0, dtype, device)
        self.bias = _parallel((output_size,), 0, dtype, device) if bias else None
        self.gather_output = gather_output

    def forward(self, x: Tensor) -> Tensor:
        """This rank's columns, or all of them with `gather_output`."""
        y = nn.functional.linear(x, self.weight, self.bias)
        return mappings.gather_from_tensor_model_parallel_region(y) if self.gather_output else y


class RowParallelLinear(BaseParallelLinear):
    """A Linear whose input columns are divided among the ranks, summed over them."""

    def __init__(
        self,
        input_size: int,
        output_size: int,
        bias: bool = True,
        input_is_parallel: bool = False,
        dtype: torch.dtype = torch.float32,
        device: torch.device | None = None,
        reduce_output: bool = True,
    ) -> None:
        super().__init__()
        self.weight = _parallel((output_size, input_size), 1, dtype, device)
        whole = torch.zeros(output_size, dtype=dtype, device=device)
        self.bias = nn.Parameter(whole, requires_grad=False) if bias else None
        self.input_is_parallel, self.reduce_output = input_is_parallel, reduce_output

    def forward(self, x: Tensor) -> Tensor:
        """The sum over the ranks, and the bias once."""
        mine = x if self.input_is_parallel else mappings.scatter_to_tensor_model_parallel_region(x)
        y = nn.functional.linear(mine, self.weight)
        y = mappings.reduce_from_tensor_model_parallel_region(y) if self.reduce_output else y
        return y if self.bias is None else y + self.bias


class SPMDRank(nn.Module):
    """The rank as data; the checkpoint needs `<prefix>.rank` = arange(world_size, int32)."""

    def __init__(self, world_size: int, tensor_model_parallel_size: int | None = None) -> None:
        super().__init__()
        self.world_size = world_size
        self.rank = nn.Parameter(torch.zeros(1, dtype=torch.int32), requires_grad=False)
        set_tensor_model_parallel_attributes(self.rank, True, 0, 1, world_size)

    def get_rank(self) -> Tensor:
        """The rank [1], int32."""
        return self.rank

"""Small modules that the stand-ins' tests trace; plain torch."""

from __future__ import annotations

import torch
from torch import Tensor, nn


def parameter(value: Tensor) -> nn.Parameter:
    """A parameter without gradient."""
    return nn.Parameter(value, requires_grad=False)


class Affine(nn.Module):
    """A linear layer times a buffer: the buffer is what loaders never fill."""

    scale: Tensor

    def __init__(self, scale: float = 2.0, dtype: torch.dtype = torch.float32) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.linear = nn.Linear(3, 4, dtype=dtype)
        self.register_buffer("scale", torch.tensor([scale], dtype=dtype))

    def forward(self, x: Tensor) -> Tensor:
        """x [2, 3] to [2, 4]."""
        out: Tensor = self.linear(x) * self.scale
        return out


class Counter(nn.Module):
    """Two running sums per list; the result shows what they were. States start at 10, 20 (k) and 30, 40 (v)."""

    def __init__(self) -> None:
        super().__init__()
        self.k = nn.ParameterList([parameter(torch.full((2,), 10.0 * (i + 1))) for i in range(2)])
        self.v = nn.ParameterList([parameter(torch.full((2,), 10.0 * (i + 3))) for i in range(2)])

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        """The sum of all states and x; then k0 + x, v0 + 2x, k1 + 3x, v1 + 4x."""
        states = [self.k[0], self.v[0], self.k[1], self.v[1]]
        total = torch.stack([one.sum() for one in states]).sum() + x
        return total, *(one + (i + 1) * x for i, one in enumerate(states))

    def aliases(self) -> dict[nn.Parameter, int]:
        """Interleaved, as a caller who thinks in layers writes them."""
        return {self.k[0]: 1, self.v[0]: 2, self.k[1]: 3, self.v[1]: 4}


class Sharded(nn.Module):
    """One rank's part of a product, its sum over `ranks`, and a state that keeps the sum."""

    def __init__(self, ranks: int, rank: int = 0) -> None:
        super().__init__()
        self.ranks = ranks
        self.weight = parameter(torch.full((3,), 1.0 + rank))
        self.last = parameter(torch.zeros(3))

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """x [3] to (sum over ranks of x * weight + last, and the same for the state)."""
        import torch_xla.core.xla_model as xm

        part = x * self.weight
        groups = [list(range(self.ranks))]
        total = xm.all_reduce("sum", part, groups=groups, pin_layout=False) + self.last
        return total, total * 1.0

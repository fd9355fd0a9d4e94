"""A two-layer MLP with an all-reduce, an accumulating state and a buffer, small enough to say what it must give."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    import torch

Array = npt.NDArray[np.float32]
WIDTH, HIDDEN = 3, 4


def values(seed: int = 0) -> dict[str, Array]:
    """The whole checkpoint; `scale` is 1.0 in the module, so 3.0 shows whether it arrived."""
    random = np.random.default_rng(seed)
    up, down = (random.normal(size=shape).astype(np.float32) for shape in ((HIDDEN, WIDTH), (WIDTH, HIDDEN)))
    return {"up.weight": up, "down.weight": down, "scale": np.array([3.0], np.float32)}


def share(whole: dict[str, Array], rank: int, tp: int) -> dict[str, Array]:
    """One rank's rows of `up` and columns of `down`."""
    mine = slice(rank * HIDDEN // tp, (rank + 1) * HIDDEN // tp)
    return {**whole, "up.weight": whole["up.weight"][mine].copy(), "down.weight": whole["down.weight"][:, mine].copy()}


def expected(whole: dict[str, Array], calls: list[Array], scale: float = 1.0) -> list[Array]:
    """What each call returns, one after the other, from a state of zeros."""
    state, found = np.zeros(WIDTH, np.float32), []
    for x in calls:
        y = np.float32(scale) * np.tanh(x @ whole["up.weight"].T) @ whole["down.weight"].T
        state = state + y.sum(0)
        found.append(y + state)
    return found


def make(tp: int, **buffers: bool) -> Any:
    """The module of any one rank, weights zero, state not zero; `scale` is a buffer unless told otherwise."""
    import torch
    from neuronx_distributed.parallel_layers import mappings
    from torch import nn

    class Toy(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.up = nn.Linear(WIDTH, HIDDEN // tp, bias=False)
            self.down = nn.Linear(HIDDEN // tp, WIDTH, bias=False)
            self.kept = nn.ParameterList([nn.Parameter(torch.full((1, WIDTH), 7.0), requires_grad=False)])
            if buffers.get("scale", True):
                self.register_buffer("scale", torch.ones(1))
            else:
                self.scale = nn.Parameter(torch.ones(1), requires_grad=False)

        def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            """Rows [B, WIDTH] to rows plus the new state [1, WIDTH], and that state."""
            partial = self.down(torch.tanh(self.up(x)))
            y = self.scale * mappings.reduce_from_tensor_model_parallel_region(partial)
            state = self.kept[0] + y.sum(0, keepdim=True)
            return y + state, state

    return Toy().requires_grad_(False)

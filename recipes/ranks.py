"""One rank's program under tensor parallelism: the same model at a rank's share, and the sums over all ranks."""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn
from transformers import Gemma4TextConfig


def rank_config(text_config: dict[str, Any], tp: int) -> Gemma4TextConfig:
    """The configuration of one rank's share: heads and MLP columns divided, a KV head replicated if need be.

    With 1 < n_kv < tp each KV head serves tp / n_kv ranks, so a rank holds one head, as with n_kv = 1.
    """
    share = dict(text_config)
    share["num_attention_heads"] //= tp
    share["intermediate_size"] //= tp
    for key in ("num_key_value_heads", "num_global_key_value_heads"):
        if share.get(key):
            share[key] = max(1, share[key] // tp)
    return Gemma4TextConfig(**share)


class RowParallel(nn.Module):
    """A Linear whose input columns are divided among ranks: partial products are summed over all of them."""

    def __init__(self, linear: nn.Module, ranks: int) -> None:
        super().__init__()
        self.linear, self.ranks = linear, ranks

    def forward(self, x: Tensor) -> Tensor:
        """Sum over ranks of this rank's x [.., in/tp] times its columns."""
        return all_reduce(self.linear(x), self.ranks)


def all_reduce(x: Tensor, ranks: int) -> Tensor:
    """The sum of `x` over all ranks; stays in the graph under XLA_ALWAYS_ALLREDUCE=1."""
    import torch_xla.core.xla_model as xm

    total: Tensor = xm.all_reduce(xm.REDUCE_SUM, x, groups=[list(range(ranks))], pin_layout=False)
    return total

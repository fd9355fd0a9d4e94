"""One rank's program under tensor parallelism: the same model at a rank's share, and the sums over all ranks."""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn

from ledger.errors import BadInput
from recipes.kinds import kind_of_text

KV_HEADS = ("num_key_value_heads", "num_global_key_value_heads")


def rank_config(text_config: dict[str, Any], tp: int) -> Any:
    """The configuration of one rank's share: heads and MLP columns divided, a KV head replicated if need be.

    With 1 < n_kv < tp each KV head serves tp / n_kv ranks, so a rank holds one head, as with n_kv = 1. The two kinds
    of attention may differ in n_kv, and so in which of the two happens. Experts stay whole in number, as every rank
    routes over all of them. BadInput naming the first count that cannot be divided so.
    """
    check_shares(text_config, tp)
    share = dict(text_config)
    share["num_attention_heads"] //= tp
    share["intermediate_size"] //= tp
    for key in KV_HEADS:
        if share.get(key):
            share[key] = max(1, share[key] // tp)
    return kind_of_text(text_config).text_config()(**share)


def check_shares(text_config: dict[str, Any], tp: int) -> None:
    """BadInput for a count that `tp` ranks cannot share: a loader that rounds it down runs and is wrong."""
    for key in ("num_attention_heads", "intermediate_size", "vocab_size", "num_experts"):
        if (text_config.get(key) or 0) % tp:
            raise BadInput(f"text_config.{key} is {text_config[key]}; accepted: a multiple of tp, which is {tp}")
    for key in KV_HEADS:
        count = text_config.get(key) or tp
        if count % tp and tp % count:
            raise BadInput(f"text_config.{key} is {count}; accepted: a multiple or a divisor of tp, which is {tp}")


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

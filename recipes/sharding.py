"""Which part of a weight each rank holds: one table, read by every target.

Column: output rows divided among ranks. Row: input columns divided, partial products summed by an all-reduce.
KV: rows of whole heads; divided when the count allows, else each head serves tp / n ranks (rank r holds head
floor(r * n / tp)), which for one head is plain replication. Shrinking the query group instead would pair queries
with the wrong head. Expert: whole experts, the first axis of their tensors; the router is replicated, as every rank
chooses among all experts. What the table does not name is replicated.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
import numpy.typing as npt

Rule = Literal["column", "row", "kv", "expert", "replicate"]
Array = npt.NDArray[np.generic]

PLAN: dict[str, Rule] = {
    "self_attn.q_proj.weight": "column",
    "self_attn.k_proj.weight": "kv",
    "self_attn.v_proj.weight": "kv",
    "self_attn.o_proj.weight": "row",
    "mlp.gate_proj.weight": "column",
    "mlp.up_proj.weight": "column",
    "mlp.down_proj.weight": "row",
    "experts.gate_up_proj": "expert",
    "experts.down_proj": "expert",
    "lm_head.weight": "column",
}


def rule_of(name: str) -> Rule:
    """The rule for a weight, by the end of the name that it is stored under."""
    return next((rule for suffix, rule in PLAN.items() if name.endswith(suffix)), "replicate")


def shard(name: str, weight: Array, rank: int, tp: int, head_dim: int = 1) -> Array:
    """The part of `weight` [out, in] that `rank` of `tp` holds: a view. `head_dim` is the layer's, for KV rows.

    The experts' weights are [E, out, in], as checkpoints store them.
    """
    rule = rule_of(name)
    if tp == 1 or rule == "replicate":
        return weight
    if rule == "row":
        width = weight.shape[1] // tp
        return weight[:, rank * width : (rank + 1) * width]
    if rule == "kv":
        heads = weight.shape[0] // head_dim
        held = max(1, heads // tp)
        first = rank * heads // tp
        return weight[first * head_dim : (first + held) * head_dim]
    height = weight.shape[0] // tp
    return weight[rank * height : (rank + 1) * height]

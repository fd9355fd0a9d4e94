"""Shards: parts that make up the whole, and query heads that meet their own KV head."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from recipes.sharding import PLAN, Rule, rule_of, shard

RANKS = st.sampled_from([1, 2, 4, 8])
NAMES = {rule: f"layers.3.{suffix}" for suffix, rule in PLAN.items()}


def numbered(*shape: int) -> npt.NDArray[np.int64]:
    return np.arange(int(np.prod(shape))).reshape(shape)


@given(RANKS, st.integers(1, 5), st.integers(1, 5))
def test_parts_make_up_the_whole(tp: int, height: int, width: int) -> None:
    whole = numbered(height * tp, width * tp)
    axes: dict[Rule, int] = {"column": 0, "row": 1}
    for rule, axis in axes.items():
        parts = [shard(NAMES[rule], whole, rank, tp) for rank in range(tp)]
        assert len({part.shape for part in parts}) == 1
        assert (np.concatenate(parts, axis) == whole).all()
    for rank in range(tp):
        assert (shard("layers.3.layer_scalar", whole, rank, tp) == whole).all()


@given(RANKS, st.sampled_from([1, 2, 4, 8]), st.integers(1, 3), st.sampled_from([1, 4]))
def test_every_query_head_meets_its_own_kv_head(tp: int, kv_heads: int, more: int, head_dim: int) -> None:
    query_heads = max(tp, kv_heads) * more
    queries = np.repeat(np.arange(query_heads), head_dim)[:, None]
    keys = np.repeat(np.arange(kv_heads), head_dim)[:, None]
    met: dict[int, int] = {}
    for rank in range(tp):
        own = shard("layers.0.self_attn.q_proj.weight", queries, rank, tp, head_dim)[::head_dim, 0].tolist()
        held = shard("layers.0.self_attn.k_proj.weight", keys, rank, tp, head_dim)[::head_dim, 0].tolist()
        assert len(held) == max(1, kv_heads // tp)
        # The library repeats each of a model's KV heads for as many query heads as fall to it.
        met |= {query: held[place // (len(own) // len(held))] for place, query in enumerate(own)}
    assert met == {query: query // (query_heads // kv_heads) for query in range(query_heads)}


@given(RANKS, st.integers(1, 3), st.integers(1, 3), st.integers(1, 3))
def test_each_expert_is_whole_on_one_rank(tp: int, more: int, height: int, width: int) -> None:
    experts = numbered(more * tp, height, width)
    held = [shard(NAMES["expert"], experts, rank, tp) for rank in range(tp)]
    assert {part.shape for part in held} == {(more, height, width)}
    assert (np.concatenate(held) == experts).all()


@given(RANKS, st.integers(1, 4), st.integers(1, 4))
def test_a_column_and_a_row_in_line_need_one_sum(tp: int, middle: int, width: int) -> None:
    first, second = numbered(middle * tp, width), numbered(width, middle * tp)[::-1]
    x = numbered(2, width)
    total = np.zeros_like(x)
    for rank in range(tp):
        column = shard("layers.0.mlp.up_proj.weight", first, rank, tp).astype(np.int64)
        row = shard("layers.0.mlp.down_proj.weight", second, rank, tp).astype(np.int64)
        total += x @ column.T @ row.T
    assert (total == x @ first.T @ second.T).all()


def test_a_part_is_a_view() -> None:
    whole = numbered(8, 8)
    for name in (*NAMES.values(), "norm.weight"):
        assert np.shares_memory(shard(name, whole, 1, 2, 2), whole)


@pytest.mark.parametrize(
    ("name", "rule"),
    [
        ("lm_head.weight", "column"),
        ("layers.11.self_attn.o_proj.weight", "row"),
        ("layers.11.self_attn.v_proj.weight", "kv"),
        ("layers.11.self_attn.k_norm.weight", "replicate"),
        ("layers.11.per_layer_input_gate.weight", "replicate"),
        ("layers.11.per_layer_projection.weight", "replicate"),
        ("per_layer_model_projection.weight", "replicate"),
        ("layers.11.experts.gate_up_proj", "expert"),
        ("layers.11.experts.down_proj", "expert"),
        ("layers.11.router.proj.weight", "replicate"),
        ("layers.11.router.per_expert_scale", "replicate"),
        ("rotary_emb.full_attention_inv_freq", "replicate"),
    ],
)
def test_rules(name: str, rule: str) -> None:
    assert rule_of(name) == rule

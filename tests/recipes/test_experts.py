"""Dense routing and dense experts against the library's own, and against sorting where scores are equal."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from transformers import Gemma4TextConfig
from transformers.models.gemma4.modeling_gemma4 import Gemma4TextExperts, Gemma4TextRouter

from recipes.experts import DenseExperts, DenseRouter, keep_best
from recipes.forms import FORMS, Form
from tests.build import KIND_CONFIGS

CONFIG = KIND_CONFIGS["moe"]
E, K, H, I = (CONFIG[key] for key in ("num_experts", "top_k_experts", "hidden_size", "moe_intermediate_size"))  # noqa: E741


def library(seed: int) -> tuple[Any, Any]:
    """The library's router and experts with weights whose every part matters."""
    torch.manual_seed(seed)
    config = Gemma4TextConfig(**CONFIG)
    router: Any = Gemma4TextRouter(config)
    experts: Any = Gemma4TextExperts(config)
    for tensor in (router.scale, router.per_expert_scale):
        tensor.data.uniform_(0.5, 2.0)
    for tensor in (router.proj.weight, experts.gate_up_proj, experts.down_proj):
        tensor.data.normal_(0.0, 1.0)
    return router, experts


def dense(experts: Any, form: Form) -> Any:
    """Dense experts with the weights of the library's."""
    made: Any = DenseExperts(experts, form, 1, None)
    gate_up = torch.cat(list(experts.gate_up_proj.data))
    down = torch.cat(list(experts.down_proj.data), 1)
    with torch.no_grad():
        made.gate_up_proj.weight.copy_(gate_up)
        made.down_proj.weight.copy_(down)
    return made


def spread(weights: Tensor, index: Tensor) -> Tensor:
    """The library's [N, K] weights over all experts [N, E], by a loop."""
    whole = torch.zeros(len(weights), E, dtype=weights.dtype)
    for row, (chosen, values) in enumerate(zip(index.tolist(), weights, strict=True)):
        whole[row, chosen] = values
    return whole


@given(st.integers(0, 1000), st.integers(1, 40))
def test_weights_are_the_librarys_and_zero_elsewhere(seed: int, tokens: int) -> None:
    router, _ = library(seed)
    hidden = torch.randn(tokens, H) * 30
    with torch.no_grad():
        _, weights, index = router(hidden)
        none, found, no_index = DenseRouter(router)(hidden)
    assert (none, no_index) == (None, None)
    assert ((found != 0).sum(-1) == K).all()
    torch.testing.assert_close(found, spread(weights, index), rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("target", FORMS)
def test_the_sum_is_the_librarys(target: str) -> None:
    router, experts = library(1)
    hidden = torch.randn(50, H)
    with torch.no_grad():
        _, weights, index = router(hidden)
        expected = experts(hidden, index, weights)
        found = dense(experts, FORMS[target])(hidden, None, spread(weights, index))
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-4 * expected.abs().max().item())


def test_an_expert_that_was_not_chosen_says_nothing() -> None:
    _, experts = library(2)
    hidden = torch.randn(9, H)
    weights = torch.rand(9, E)
    weights[:, 3] = 0
    one, other = dense(experts, FORMS["cpu"]), dense(experts, FORMS["cpu"])
    with torch.no_grad():
        other.gate_up_proj.weight[3 * 2 * I : 4 * 2 * I] *= 1e6
        assert torch.equal(one(hidden, None, weights), other(hidden, None, weights))


# Few distinct scores, so that most rows have equals on the border between chosen and not.
@given(st.lists(st.lists(st.integers(0, 3), min_size=9, max_size=9), min_size=1, max_size=5), st.integers(1, 9))
def test_the_first_of_equals_wins(levels: list[list[int]], count: int) -> None:
    scores = np.array(levels, np.float32) / 8
    order = np.argsort(-scores, axis=-1, kind="stable")[:, :count]
    expected = np.zeros_like(scores)
    np.put_along_axis(expected, order, np.take_along_axis(scores, order, -1), -1)
    found = keep_best(torch.from_numpy(scores), count).numpy()
    assert (found == expected).all()
    # Scores of zero are chosen without a trace: what would show is a weight that is not among the best.
    assert (np.sort(found, -1)[:, ::-1][:, :count] == np.take_along_axis(scores, order, -1)).all()


def test_a_bfloat16_router_scores_in_float32() -> None:
    router, _ = library(3)
    found = DenseRouter(router.bfloat16())(torch.randn(4, H).bfloat16())[1]
    assert found.dtype == torch.float32

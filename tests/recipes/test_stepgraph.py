"""The step graph in eager torch, with real tensors, against transformers' own forward without any cache.

Masks and selectors come from positions, by loops (tests/recipes/steps.py). Ranks are threads that meet in
the all-reduce.
"""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from ledger.errors import BadInput
from recipes import ranks, stepgraph
from recipes.forms import FORMS, TanhGelu
from recipes.sharding import shard
from recipes.stepgraph import StepGraph
from serve.manifest import Parameter
from tests import build
from tests.build import KIND_CONFIGS, TEXT_CONFIG
from tests.recipes import steps
from tests.recipes.steps import BUCKET, CHUNKS, IDS, RING, ROWS

Tensors = dict[str, Tensor]


def step_inputs(model: Any, chunk: list[int], start: int) -> Tensors:
    """Inputs of the prefill graph for several tokens, of the decode graph for one."""
    return steps.step_inputs(model, chunk, start, BUCKET if len(chunk) > 1 else 1)


def rank_weights(model: Any, graph: StepGraph, rank: int) -> Tensors:
    """The weights of one rank by module name: a copy of the model's own, cut by the table of shards.

    What a rank's experts hold is laid out here by loops: rows of one after the other, columns of one beside the other.
    """
    state = dict(model.model.state_dict()) | dict(model.model.named_buffers())
    state |= {"lm_head.weight": model.lm_head.weight, "rank.onehot": torch.eye(graph.tp)[rank]}
    weights = {}
    for module, parameter in zip(graph.weight_names(), graph.weights(), strict=True):
        name = parameter.name.removesuffix(".weight") if ".experts." in parameter.name else parameter.name
        whole = state[name].detach().numpy()
        layer = int(name.split(".")[1]) if name.startswith("layers.") else 0
        full = graph.config.layer_types[layer] == "full_attention"
        part = shard(name, whole, rank, graph.tp, graph.config.global_head_dim if full else graph.config.head_dim)
        if ".experts." in name:
            part = np.concatenate(list(part), axis=["gate_up_proj", "down_proj"].index(name.rsplit(".")[-1]))
        assert part.shape == parameter.shape, parameter.name
        weights[module] = torch.from_numpy(part.copy())
    return weights


def run_rank(model: Any, graph: StepGraph, rank: int) -> list[Tensor]:
    """Logits [1, V] after each chunk, over buffers that start full of noise."""
    weights = rank_weights(model, graph, rank)
    state = {p.name: torch.randn(p.shape) * 50 for p in graph.states(1, ROWS, RING)}
    found, start = [], 0
    with torch.no_grad():
        for chunk in CHUNKS:
            arguments = (step_inputs(model, chunk, start), state)
            logits, state = torch.func.functional_call(graph, weights, arguments)
            found.append(logits)
            start += len(chunk)
    return found


def expected(model: Any) -> list[Tensor]:
    """The library's logits [1, V] at the last token of each chunk."""
    with torch.no_grad():
        logits = model(torch.tensor([IDS])).logits
    ends = np.cumsum([len(chunk) for chunk in CHUNKS]) - 1
    return [logits[:, end] for end in ends]


def check(found: list[Tensor], model: Any) -> None:
    for one, other in zip(found, expected(model), strict=True):
        torch.testing.assert_close(one, other, rtol=0.0, atol=2e-4)


@pytest.mark.parametrize("target", FORMS)
def test_both_forms_are_the_library_in_float32(random_model: Any, target: str) -> None:
    graph = StepGraph(TEXT_CONFIG, 1, "float32", FORMS[target])
    check(run_rank(random_model, graph, 0), random_model)


@pytest.mark.parametrize(
    "changes",
    [
        {"hidden_size_per_layer_input": 0},
        {"num_kv_shared_layers": 0, "use_double_wide_mlp": False},
        {"attention_k_eq_v": True, "num_global_key_value_heads": 1, "num_kv_shared_layers": 0},
        {"final_logit_softcapping": None},
    ],
    ids=str,
)
def test_other_geometries_are_the_library_too(changes: dict[str, Any]) -> None:
    config = TEXT_CONFIG | changes
    model = build.random_model(config, seed=1)
    check(run_rank(model, StepGraph(config, 1, "float32", FORMS["cpu"]), 0), model)


class AllReduce:
    """A sum over ranks that are threads: everybody brings a part, everybody takes the sum."""

    def __init__(self, ranks: int) -> None:
        self.calls = 0
        self._parts: dict[int, Tensor] = {}
        self._met = threading.Barrier(ranks)

    def __call__(self, x: Tensor, ranks: int) -> Tensor:
        self._parts[threading.get_ident()] = x
        self._met.wait(timeout=60)
        total = torch.stack(list(self._parts.values())).sum(0)
        self.calls += 1
        self._met.wait(timeout=60)
        return total


def together(model: Any, config: dict[str, Any], tp: int, monkeypatch: pytest.MonkeyPatch) -> tuple[Any, int]:
    """The logits of every rank, and how many sums each rank took part in at a step."""
    meeting = AllReduce(tp)
    monkeypatch.setattr(ranks, "all_reduce", meeting)
    monkeypatch.setattr(stepgraph, "all_reduce", meeting)
    graphs = [StepGraph(config, tp, "float32", FORMS["cpu"]) for _ in range(tp)]
    with ThreadPoolExecutor(tp) as pool:
        found = list(pool.map(lambda rank: run_rank(model, graphs[rank], rank), range(tp)))
    return found, meeting.calls // tp // len(CHUNKS)


@pytest.mark.parametrize("tp", [2, 4])
def test_ranks_together_are_the_library(random_model: Any, tp: int, monkeypatch: pytest.MonkeyPatch) -> None:
    # Two KV heads: one each for two ranks, each one twice for four.
    found, sums = together(random_model, TEXT_CONFIG, tp, monkeypatch)
    assert sums == 2 * TEXT_CONFIG["num_hidden_layers"] + 1
    for logits in found:
        check(logits, random_model)


@pytest.mark.parametrize("target", FORMS)
@pytest.mark.parametrize("kind", KIND_CONFIGS)
def test_other_kinds_are_the_library(kind: str, target: str) -> None:
    model = build.random_model(KIND_CONFIGS[kind], seed=3)
    check(run_rank(model, StepGraph(KIND_CONFIGS[kind], 1, "float32", FORMS[target]), 0), model)


@pytest.mark.parametrize(("kind", "tp"), [("unified", 4), ("moe", 2), ("moe", 4), ("moe", 8), ("dense", 8)])
def test_ranks_of_other_kinds_together_are_the_library(kind: str, tp: int, monkeypatch: pytest.MonkeyPatch) -> None:
    # KV heads of full layers: one for all ranks, then two for two, four and eight ranks, then four for eight.
    model = build.random_model(KIND_CONFIGS[kind], seed=4)
    found, sums = together(model, KIND_CONFIGS[kind], tp, monkeypatch)
    assert sums == (3 if kind == "moe" else 2) * KIND_CONFIGS[kind]["num_hidden_layers"] + 1
    for logits in found:
        check(logits, model)


@pytest.mark.parametrize(
    ("key", "count", "accepted"),
    [
        ("num_attention_heads", 6, "a multiple of tp, which is 4"),
        ("num_experts", 10, "a multiple of tp, which is 4"),
        ("num_global_key_value_heads", 3, "a multiple or a divisor of tp, which is 4"),
    ],
)
def test_a_count_that_ranks_cannot_share_is_named(key: str, count: int, accepted: str) -> None:
    with pytest.raises(BadInput, match=rf"^text_config\.{key} is {count}; accepted: {accepted}$"):
        StepGraph(KIND_CONFIGS["moe"] | {key: count}, 4, "float32", FORMS["cpu"])


def test_state_is_written_where_the_selector_says_and_nowhere_else(random_model: Any) -> None:
    graph = StepGraph(TEXT_CONFIG, 1, "float32", FORMS["cpu"])
    weights = rank_weights(random_model, graph, 0)
    before = {p.name: torch.randn(p.shape) for p in graph.states(1, ROWS, RING)}
    assert graph.owners() == [0, 1, 2]
    assert {name: tuple(tensor.shape) for name, tensor in before.items()} == {
        **{f"{kind}.{layer}": (1, 2, RING, 16) for kind in "kv" for layer in (0, 1)},
        **{f"{kind}.2": (1, 2, ROWS, 32) for kind in "kv"},
    }
    with torch.no_grad():
        arguments = (step_inputs(random_model, IDS[:3], 18), before)
        _, after = torch.func.functional_call(graph, weights, arguments)
    for name, old in before.items():
        changed = (after[name] != old).any(-1)[0].all(0)
        untouched = (after[name] == old).all(-1)[0].all(0)
        rows = {18, 19, 20} if name.endswith("2") else {18, 19, 0}
        assert set(torch.nonzero(changed)[:, 0].tolist()) == rows
        assert set(torch.nonzero(~untouched)[:, 0].tolist()) == rows


@pytest.mark.parametrize("target", FORMS)
def test_each_slot_is_the_library_whatever_the_others_do(random_model: Any, target: str) -> None:
    graph = StepGraph(TEXT_CONFIG, 1, "float32", FORMS[target])
    weights = rank_weights(random_model, graph, 0)
    state = {p.name: torch.randn(p.shape) * 50 for p in graph.states(3, ROWS, RING)}
    untouched = {name: tensor[1].clone() for name, tensor in state.items()}
    sequences, starts = {0: IDS, 2: IDS[::-1]}, {0: 0, 2: 0}
    found: dict[int, list[Tensor]] = {0: [], 2: []}

    def take(slot: int, size: int) -> Tensors:
        starts[slot] += size
        start = starts[slot] - size
        return step_inputs(random_model, sequences[slot][start : start + size], start)

    def run(inputs: Tensors) -> Tensor:
        nonlocal state
        logits: Tensor
        with torch.no_grad():
            logits, state = torch.func.functional_call(graph, weights, (inputs, state))
        return logits

    # Prompts of 17 and 12 tokens, chunk by chunk in turn, one chunk of a single token; then both decode.
    for slot, size in ((0, 8), (2, 8), (0, 8), (2, 4), (0, 1)):
        found[slot] += run(take(slot, size) | {"slot": torch.eye(3)[slot]})
    while starts[0] < len(IDS):
        first, last = take(0, 1), take(2, 1)
        logits = run({name: torch.cat([first[name], torch.zeros_like(first[name]), last[name]]) for name in first})
        found[0].append(logits[0])
        found[2].append(logits[2])

    for slot, positions in {0: [7, 15, *range(16, 28)], 2: [7, *range(11, 23)]}.items():
        with torch.no_grad():
            expected = random_model(torch.tensor([sequences[slot]])).logits[0, positions]
        torch.testing.assert_close(torch.stack(found[slot]), expected, rtol=0.0, atol=2e-4)
    for name, tensor in untouched.items():
        assert torch.equal(state[name][1], tensor)


def test_rounding_to_bfloat16_leaves_positions_alone() -> None:
    # A frequency off by 2^-9 turns position 2,048 by four radians.
    weights = StepGraph(TEXT_CONFIG, 1, "bfloat16", FORMS["cpu"]).weights()
    dtypes = {weight.name: weight.dtype for weight in weights}
    kept = {name for name, dtype in dtypes.items() if dtype == "float32"}
    assert kept == {"rotary_emb.full_attention_inv_freq", "rotary_emb.sliding_attention_inv_freq"}


def test_every_tensor_of_the_model_but_its_tables_is_a_weight(random_model: Any) -> None:
    names = [weight.name for weight in StepGraph(TEXT_CONFIG, 1, "float32", FORMS["cpu"]).weights()]
    model = {name.removeprefix("model.") for name in random_model.state_dict()}
    tables = {"embed_tokens.weight", "embed_tokens_per_layer.weight"}
    frequencies = {f"rotary_emb.{kind}_attention_inv_freq" for kind in ("full", "sliding")}
    assert len(names) == len(set(names))
    assert set(names) == model - tables | frequencies


@pytest.mark.parametrize(("tp", "rank_shape"), [(1, (128, 96)), (2, (64, 96)), (4, (32, 96))])
def test_a_rank_holds_its_share(tp: int, rank_shape: tuple[int, int]) -> None:
    weights = {weight.name: weight for weight in StepGraph(TEXT_CONFIG, tp, "float32", FORMS["cpu"]).weights()}
    assert weights["layers.0.mlp.up_proj.weight"].shape == rank_shape
    assert weights["layers.2.self_attn.q_proj.weight"].shape == rank_shape
    assert weights["layers.4.mlp.up_proj.weight"].shape == (256 // tp, 96)
    assert weights["layers.0.self_attn.k_proj.weight"].shape == (16 * max(1, 2 // tp), 96)
    assert weights["lm_head.weight"].shape == (512 // tp, 96)
    onehot = Parameter(name="rank.onehot", role="weight", shape=(tp,), dtype="float32")
    assert weights.get("rank.onehot") == (onehot if tp > 1 else None)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_gelu_is_torchs_tanh_approximation(dtype: torch.dtype) -> None:
    x = torch.linspace(-8, 8, 4001).to(dtype)
    exact = torch.nn.functional.gelu(x.double(), approximate="tanh")
    found = TanhGelu()(x)
    assert found.dtype == dtype
    half_step = torch.finfo(dtype).eps / 2
    assert ((found.double() - exact).abs() <= 1.01 * half_step * exact.abs() + 1e-6).all()

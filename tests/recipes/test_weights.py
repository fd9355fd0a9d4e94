"""Device weights: the checkpoint's own numbers, every key accounted for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor

from ledger.errors import BadInput, FoundryError
from ledger.stage import Outcome
from ledger.store import Store
from recipes import forms, tensorwriter, weights
from recipes.forms import FORMS
from recipes.stepgraph import StepGraph
from recipes.weights import WeightsRecipe
from serve.manifest import Parameter
from tests import build
from tests.build import KIND_CONFIGS, PREFIX, TEXT_CONFIG, fetched, job, text_tensors, traps, write_checkpoint

Tensors = dict[str, Tensor]


@pytest.fixture
def tensors(random_model: Any) -> Tensors:
    """An official checkpoint's tensors, to change."""
    return text_tensors(random_model) | traps(TEXT_CONFIG)


def run(folder: Path, tensors: Tensors, config: dict[str, Any] = TEXT_CONFIG, **recipe: Any) -> tuple[Outcome, Store]:
    """The stage over a checkpoint of these tensors."""
    checkpoint, store = folder / "checkpoint", Store(folder / "store")
    checkpoint.mkdir()
    write_checkpoint(checkpoint, config, tensors)
    chosen = WeightsRecipe.model_validate({"dtype": "float32", "tp": 1, "target": "cpu"} | recipe)
    return weights.work(job(chosen, store, fetch=fetched(checkpoint, store))), store


def read(outcome: Outcome, store: Store, rank: int = 0) -> Tensors:
    found: Tensors = load_file(store.path(outcome.outputs[f"rank{rank}.safetensors"]))
    return found


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_weights_are_the_models_own(tmp_path: Path, tensors: Tensors, random_model: Any, dtype: str) -> None:
    outcome, store = run(tmp_path, tensors, dtype=dtype)
    found = read(outcome, store)
    frequencies = {name for name in found if name.startswith("rotary_emb.")}
    for name in frequencies:
        own = random_model.model.rotary_emb.get_buffer(name.removeprefix("rotary_emb."))
        assert torch.equal(found[name], own)
        assert found[name].dtype == torch.float32
    assert torch.equal(found["lm_head.weight"].bfloat16(), tensors[f"{PREFIX}embed_tokens.weight"])
    for name in found.keys() - frequencies - {"lm_head.weight"}:
        assert found[name].dtype == getattr(torch, dtype)
        assert torch.equal(found[name].bfloat16(), tensors[PREFIX + name])
    used = {PREFIX + name for name in found}
    tables = {f"{PREFIX}embed_tokens.weight", f"{PREFIX}embed_tokens_per_layer.weight"}
    assert tensors.keys() - used == tables | traps(TEXT_CONFIG).keys()
    assert outcome.facts == {"tensors": len(found), "layer_scalars_bit_equal": 5}
    assert all(found[f"layers.{layer}.layer_scalar"].item() != 1.0 for layer in range(5))


def test_long_bfloat16_linears_come_in_pieces_on_cpu(
    tmp_path: Path, tensors: Tensors, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(forms.FORMS, "cpu", replace(FORMS["cpu"], longest_contraction=64))
    outcome, store = run(tmp_path, tensors, dtype="bfloat16")
    found = read(outcome, store)
    name = "layers.4.mlp.down_proj"
    whole = tensors[f"{PREFIX}{name}.weight"]
    count = -(-whole.shape[1] // 64)
    assert f"{name}.weight" not in found
    pieces = [found[f"{name}.pieces.{number}"] for number in range(count)]
    assert len(pieces) > 1
    assert torch.equal(torch.cat(pieces, 1), whole)


@pytest.mark.parametrize("tp", [2, 4])
def test_each_rank_gets_a_file_of_its_programs_shapes(tmp_path: Path, tensors: Tensors, tp: int) -> None:
    outcome, store = run(tmp_path, tensors, tp=tp)
    assert sorted(outcome.outputs) == [f"rank{rank}.safetensors" for rank in range(tp)]
    shapes = {w.name: w.shape for w in StepGraph(TEXT_CONFIG, tp, "float32", FORMS["cpu"]).weights()}
    ranks = [read(outcome, store, rank) for rank in range(tp)]
    for rank, found in enumerate(ranks):
        assert {name: tuple(tensor.shape) for name, tensor in found.items()} == shapes
        assert found["rank.onehot"].tolist() == np.eye(tp)[rank].tolist()
    for name, axis in {
        "lm_head.weight": 0,
        "layers.4.mlp.down_proj.weight": 1,
        "layers.2.self_attn.q_proj.weight": 0,
    }.items():
        key = "embed_tokens.weight" if name == "lm_head.weight" else name
        assert torch.equal(torch.cat([found[name] for found in ranks], axis), tensors[PREFIX + key].float())
    # Two KV heads of 32 columns in a full layer: for four ranks each is held twice.
    whole = tensors[f"{PREFIX}layers.2.self_attn.k_proj.weight"].float().reshape(2, 32, 96)
    for rank, found in enumerate(ranks):
        assert torch.equal(found["layers.2.self_attn.k_proj.weight"], whole[rank * 2 // tp])


@pytest.mark.parametrize(
    "key",
    [
        f"{PREFIX}layers.5.layer_scalar",
        f"{PREFIX}layers.1.self_attn.k_proj.bias",
        f"{PREFIX}layers.3.self_attn.v_norm.weight",
        "model.norm.weight",
        "lm_head.weight",
        "model.vision_towers.a",
    ],
)
def test_a_key_without_a_use_is_named(tmp_path: Path, tensors: Tensors, key: str) -> None:
    with pytest.raises(BadInput, match=f"checkpoint key {key} has no use in the graph"):
        run(tmp_path, tensors | {key: torch.ones(2, dtype=torch.bfloat16)})


@pytest.mark.parametrize(
    "key", ["layers.0.layer_scalar", "layers.1.self_attn.k_proj.weight", "layers.4.mlp.up_proj.weight", "norm.weight"]
)
def test_a_weight_without_a_key_is_named(tmp_path: Path, tensors: Tensors, key: str) -> None:
    del tensors[PREFIX + key]
    with pytest.raises(BadInput, match=f"checkpoint key {PREFIX}{key} is missing"):
        run(tmp_path, tensors)


def kind_tensors(kind: str) -> Tensors:
    """A checkpoint's tensors of another kind, to change."""
    return text_tensors(build.random_model(KIND_CONFIGS[kind], seed=0)) | traps(KIND_CONFIGS[kind])


@pytest.mark.parametrize("tp", [1, 2, 8])
def test_each_rank_gets_whole_experts_and_the_whole_router(tmp_path: Path, tp: int) -> None:
    tensors = kind_tensors("moe")
    outcome, store = run(tmp_path, tensors, KIND_CONFIGS["moe"], tp=tp)
    experts, width = KIND_CONFIGS["moe"]["num_experts"], KIND_CONFIGS["moe"]["moe_intermediate_size"]
    for rank in range(tp):
        found = read(outcome, store, rank)
        for name in ("router.proj.weight", "router.scale", "router.per_expert_scale"):
            assert torch.equal(found[f"layers.1.{name}"], tensors[f"{PREFIX}layers.1.{name}"].float())
        for place in range(experts // tp):
            expert = rank * experts // tp + place
            rows = found["layers.1.experts.gate_up_proj.weight"][place * 2 * width : (place + 1) * 2 * width]
            columns = found["layers.1.experts.down_proj.weight"][:, place * width : (place + 1) * width]
            assert torch.equal(rows, tensors[f"{PREFIX}layers.1.experts.gate_up_proj"][expert].float())
            assert torch.equal(columns, tensors[f"{PREFIX}layers.1.experts.down_proj"][expert].float())


def test_pieces_of_experts_begin_and_end_inside_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # 8 experts of 40 columns in pieces of 64: most hold parts of three.
    monkeypatch.setitem(forms.FORMS, "cpu", replace(FORMS["cpu"], longest_contraction=64))
    tensors = kind_tensors("moe")
    outcome, store = run(tmp_path, tensors, KIND_CONFIGS["moe"], dtype="bfloat16")
    found = read(outcome, store)
    whole = torch.cat(list(tensors[f"{PREFIX}layers.0.experts.down_proj"]), 1)
    pieces = [found[f"layers.0.experts.down_proj.pieces.{number}"] for number in range(5)]
    assert torch.equal(torch.cat(pieces, 1), whole)
    # The width of 96 is over 64 too: gate and up of all experts come in two.
    halves = [found[f"layers.0.experts.gate_up_proj.pieces.{number}"] for number in range(2)]
    assert torch.equal(torch.cat(halves, 1), torch.cat(list(tensors[f"{PREFIX}layers.0.experts.gate_up_proj"])))


@pytest.mark.parametrize(
    ("kind", "key"),
    [
        ("moe", "layers.0.router.per_expert_scale"),
        ("moe", "layers.1.experts.down_proj"),
        ("moe", "layers.1.post_feedforward_layernorm_2.weight"),
        ("unified", "layers.1.self_attn.k_proj.weight"),
        ("dense", "layers.0.self_attn.v_proj.weight"),
    ],
)
def test_a_weight_of_another_kind_without_a_key_is_named(tmp_path: Path, kind: str, key: str) -> None:
    tensors = kind_tensors(kind)
    del tensors[PREFIX + key]
    with pytest.raises(BadInput, match=f"checkpoint key {PREFIX}{key} is missing"):
        run(tmp_path, tensors, KIND_CONFIGS[kind])


@pytest.mark.parametrize(
    ("kind", "key"),
    [
        # Where K = V, a full layer has no projection of V.
        ("unified", "layers.1.self_attn.v_proj.weight"),
        ("dense", "layers.0.router.scale"),
        ("moe", "layers.0.experts.gate_up_proj.weight"),
    ],
)
def test_a_key_that_another_kind_has_no_use_for_is_named(tmp_path: Path, kind: str, key: str) -> None:
    tensors = kind_tensors(kind) | {PREFIX + key: torch.ones(2, dtype=torch.bfloat16)}
    with pytest.raises(BadInput, match=f"checkpoint key {PREFIX}{key} has no use in the graph"):
        run(tmp_path, tensors, KIND_CONFIGS[kind])


def test_experts_of_another_shape_and_the_same_size_are_named(tmp_path: Path) -> None:
    tensors = kind_tensors("moe")
    key = f"{PREFIX}layers.0.experts.gate_up_proj"
    tensors[key] = tensors[key].reshape(4, 160, 96)
    with pytest.raises(BadInput, match=rf"{key}: shape is \(4, 160, 96\); accepted: \(8, 80, 96\)"):
        run(tmp_path, tensors, KIND_CONFIGS["moe"])


def test_keys_of_shared_layers_are_no_decoys_where_nothing_is_shared(tmp_path: Path, tensors: Tensors) -> None:
    # The traps hold K and V of layer 3 and not of layer 4.
    with pytest.raises(BadInput, match=r"layers\.4\.self_attn\.k_norm\.weight is missing"):
        run(tmp_path, tensors, TEXT_CONFIG | {"num_kv_shared_layers": 0})


def test_a_tensor_of_another_shape_is_named(tmp_path: Path, tensors: Tensors) -> None:
    tensors[f"{PREFIX}norm.weight"] = torch.ones(97, dtype=torch.bfloat16)
    with pytest.raises(BadInput, match=r"checkpoint key for norm\.weight: shape is \(97,\); accepted: \(96,\)"):
        run(tmp_path, tensors)


def test_a_layer_scalar_that_does_not_arrive_fails_the_stage(
    tmp_path: Path, tensors: Tensors, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = tensorwriter.write_tensors

    def forgetful(file: Any, parameters: Any, source: Callable[[Parameter], Any]) -> None:
        def values(parameter: Parameter) -> Any:
            value = source(parameter)
            return np.ones_like(value) if parameter.name == "layers.3.layer_scalar" else value

        write(file, parameters, values)

    monkeypatch.setattr(weights, "write_tensors", forgetful)
    with pytest.raises(FoundryError, match=r"layers\.3\.layer_scalar is .* in the weight file"):
        run(tmp_path, tensors)

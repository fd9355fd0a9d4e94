"""Every kind of the family at its published shape: what it lowers to, and what is refused by name."""

from __future__ import annotations

import re
from typing import Any

import pytest

from config.geometry import load_text_config
from ledger.errors import BadInput
from recipes.kinds import KINDS, kind_of, kind_of_text
from recipes.lowering import LowerRecipe, lower
from tests.recipes.test_lower import DYNAMIC, hlo_text, opcodes

# The degree each is published or planned at, and the bytes of K and V a token takes in a sliding and a full layer of
# a rank: 2 (K and V) * 2 bytes * heads of the rank * head size.
PUBLISHED: dict[str, tuple[int, int, int]] = {
    "E2B": (2, 4 * 256, 4 * 512),
    "E4B": (4, 4 * 256, 4 * 512),
    "12B": (4, 4 * 2 * 256, 4 * 512),
    "26B-A4B": (8, 4 * 256, 4 * 512),
    "31B": (8, 4 * 2 * 256, 4 * 512),
}


def shallow(name: str) -> dict[str, Any]:
    """The published text_config at one period of its layers, or two where the second half shares K and V."""
    config = load_text_config(f"gemma-4-{name}-it")
    period = config["layer_types"].index("full_attention") + 1
    shared = period if config["num_kv_shared_layers"] else 0
    layers = period + shared
    depth = {"num_hidden_layers": layers, "layer_types": config["layer_types"][:layers], "num_kv_shared_layers": shared}
    return config | depth


@pytest.mark.parametrize(("graph", "target"), [("prefill", "cpu"), ("decode", "inf2")])
@pytest.mark.parametrize("name", PUBLISHED)
def test_every_kind_lowers_at_its_published_width(name: str, graph: Any, target: str) -> None:
    tp, sliding, full = PUBLISHED[name]
    config = shallow(name)
    recipe = LowerRecipe.model_validate(
        {"kv_max": 2048, "kv_bucket": 512, "tp": tp, "batch": 1, "dtype": "bfloat16", "target": target}
    )
    found = lower(config, recipe, graph)
    text = hlo_text(found.hlo)
    assert not opcodes(text) & (DYNAMIC | {"topk", "reduce-window"})
    layers = config["num_hidden_layers"]
    # One after attention, one after the MLP, one after the experts, and one for the head.
    assert len(re.findall(r" all-reduce\(", text)) == layers * (3 if config["enable_moe_block"] else 2) + 1
    owners = config["layer_types"][: layers - config["num_kv_shared_layers"]]
    rows = min(2048, config["sliding_window"] + 512)
    state = sum(2 * _elements(p.shape) for p in found.signature.named("state").values())
    assert state == owners.count("sliding_attention") * sliding * rows + owners.count("full_attention") * full * 2048


def test_experts_are_two_matrices_of_a_ranks_share() -> None:
    recipe = LowerRecipe(kv_max=64, kv_bucket=16, tp=8, batch=1, dtype="bfloat16", target="inf2")
    weights = lower(shallow("26B-A4B"), recipe, "decode").signature.named("weight")
    shapes = {name: weights[f"layers.0.{name}"].shape for name in ("router.proj.weight", "router.per_expert_scale")}
    shapes |= {name: weights[f"layers.0.experts.{name}.weight"].shape for name in ("gate_up_proj", "down_proj")}
    assert shapes == {
        "router.proj.weight": (128, 2816),
        "router.per_expert_scale": (128,),
        "gate_up_proj": (180_224 // 8, 2816),
        "down_proj": (2816, 90_112 // 8),
    }
    assert not any("v_proj" in name for name in weights if name.startswith("layers.5."))


def _elements(shape: tuple[int, ...]) -> int:
    count = 1
    for size in shape:
        count *= size
    return count


@pytest.mark.parametrize("model_type", KINDS)
def test_the_librarys_classes_name_themselves(model_type: str) -> None:
    kind = KINDS[model_type]
    assert kind.config().model_type == model_type
    assert kind.text_config().model_type == kind.text_type
    assert kind.full_model().config_class is kind.config()
    assert kind.text_model().config_class is kind.text_config()
    assert kind_of({"model_type": model_type, "text_config": {"model_type": kind.text_type}}, "x") is kind
    assert kind_of_text({"model_type": kind.text_type}) is kind


@pytest.mark.parametrize(
    "found", ["gemma4_assistant", "gemma4_unified_assistant", "gemma3", "gemma4_text", "", None, 4, ["gemma4"]]
)
def test_another_model_is_refused_by_name(found: Any) -> None:
    with pytest.raises(BadInput) as caught:
        kind_of({"model_type": found, "text_config": {"model_type": f"{found}_text"}}, "config.json")
    accepted = "accepted: 'gemma4' or 'gemma4_unified' with a text_config"
    assert str(caught.value) == f"config.json: model_type is {found!r}; {accepted}"
    with pytest.raises(BadInput, match="accepted: 'gemma4_text' or 'gemma4_unified_text'"):
        kind_of_text({"model_type": f"{found}_other"})


def test_parts_of_two_kinds_are_refused() -> None:
    with pytest.raises(BadInput, match=r"text_config\.model_type is 'gemma4_text'; accepted: 'gemma4_unified_text'"):
        kind_of({"model_type": "gemma4_unified", "text_config": {"model_type": "gemma4_text"}}, "config.json")

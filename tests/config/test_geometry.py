"""Geometries: the files against pinned digests, the typed view against published tables and transformers."""

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from config.geometry import Geometry, geometry_names, geometry_path, load_geometry
from config.reference import reference_names, reference_path
from ledger.errors import BadInput

SHA256 = {
    "gemma-4-12B-it": "4208613ad244f8c11287c1df14c0ef3b4da1da996fbd47af2d907303bf03ea6d",
    "gemma-4-26B-A4B-it": "70df5447600011406950df45f8d79bcb317ef7064199175bc4ba6df4cb97b7b5",
    "gemma-4-31B-it": "05253d0af79d388822d93de22891678a398d0b534a373e5778cb091a43a285eb",
    "gemma-4-E2B-it": "9413a40af1a33875e993fd1c28f40add8a80daa74b574c73fb02e995bbe1b050",
    "gemma-4-E4B-it": "81fc659baaebe563844905b13465c7daea4af83799b8c9ca5fc6927ab565e9b1",
}

# Owners with sliding and full attention, and bfloat16 cache bytes per token of each kind: counted from the
# tensor shapes of the checkpoints.
CACHE = {
    "gemma-4-E2B-it": (12, 3, 12_288, 6_144),
    "gemma-4-E4B-it": (20, 4, 40_960, 16_384),
    "gemma-4-12B-it": (40, 8, 327_680, 16_384),
    "gemma-4-26B-A4B-it": (25, 5, 204_800, 20_480),
    "gemma-4-31B-it": (50, 10, 819_200, 81_920),
}


@pytest.mark.parametrize("name", SHA256)
def test_official_geometry_is_unchanged(name: str) -> None:
    assert hashlib.sha256(geometry_path(name).read_bytes()).hexdigest() == SHA256[name]


# Each small geometry and the published one whose kind it is.
SMALL = {
    "tiny": "gemma-4-E2B-it",
    "tiny-dense": "gemma-4-31B-it",
    "tiny-gqa": "gemma-4-E4B-it",
    "tiny-moe": "gemma-4-26B-A4B-it",
    "tiny-unified": "gemma-4-12B-it",
}


def test_names_are_the_five_and_the_small_ones() -> None:
    assert geometry_names() == (*sorted(SHA256), *SMALL)


@pytest.mark.parametrize("name", SMALL)
def test_a_small_geometry_has_the_switches_and_head_ratios_of_its_kind(name: str) -> None:
    small, large = load_geometry(name), load_geometry(SMALL[name])
    for switch in ("attention_k_eq_v", "enable_moe_block", "use_double_wide_mlp", "final_logit_softcapping"):
        assert getattr(small, switch) == getattr(large, switch), switch
    assert bool(small.hidden_size_per_layer_input) == bool(large.hidden_size_per_layer_input)
    assert bool(small.num_kv_shared_layers) == bool(large.num_kv_shared_layers)
    for layers in ("full_layers", "sliding_layers"):
        ratios = {
            geometry.num_attention_heads / geometry.kv_heads_of(getattr(geometry, layers)[0])
            for geometry in (small, large)
        }
        # Eight heads for one would leave none to divide among four ranks at this width.
        assert len(ratios) == 1 or name == "tiny"
    assert small.sliding_window < small.max_position_embeddings
    documents = [json.loads(geometry_path(each).read_text(encoding="utf-8")) for each in (name, SMALL[name])]
    assert len({document["model_type"] for document in documents}) == 1
    assert documents[0].keys() == documents[1].keys()


@pytest.mark.parametrize(
    ("name", "changes", "tp", "accepted"),
    [
        ("tiny-moe", {}, 16, None),
        ("tiny-moe", {"num_experts": 12}, 8, "a divisor of the 12 experts"),
        ("tiny-moe", {"num_global_key_value_heads": 3}, 2, "a divisor or a multiple of the 3 KV heads"),
        ("tiny-moe", {"intermediate_size": 30}, 4, "a divisor of the 30 columns of intermediate_size"),
        ("tiny-unified", {}, 24, "a divisor of the 16 attention heads"),
        ("tiny", {"num_key_value_heads": 4, "vocab_size": 2050}, 4, "a divisor of the 2050 ids of vocab_size"),
    ],
)
def test_a_degree_that_ranks_cannot_share(name: str, changes: dict[str, Any], tp: int, accepted: str | None) -> None:
    assert load_geometry(name).model_copy(update=changes).tp_accepted(tp) == accepted


@pytest.mark.parametrize("name", CACHE)
def test_cache_bytes_per_token_match_the_published_table(name: str) -> None:
    geometry = load_geometry(name)
    per_layer = [2 * 2 * geometry.kv_heads_of(i) * geometry.head_dim_of(i) for i in geometry.owner_layers]
    full = [size for i, size in zip(geometry.owner_layers, per_layer, strict=True) if geometry.is_full(i)]
    owners = len(geometry.owner_layers)
    assert (owners - len(full), len(full), sum(per_layer) - sum(full), sum(full)) == CACHE[name]


@pytest.mark.parametrize(("name", "first", "donors"), [("E2B", 15, {13, 14}), ("E4B", 24, {22, 23})])
def test_shared_layers_read_the_last_owner_of_their_type(name: str, first: int, donors: set[int]) -> None:
    geometry = load_geometry(f"gemma-4-{name}-it")
    assert geometry.shared_layers[0] == first and geometry.owner_layers[-1] == first - 1
    assert {geometry.donor(i) for i in geometry.shared_layers} == donors
    assert all(geometry.is_full(geometry.donor(i)) == geometry.is_full(i) for i in geometry.shared_layers)
    assert all(geometry.donor(i) == i for i in geometry.owner_layers)


def test_period_of_full_layers() -> None:
    assert load_geometry("gemma-4-E2B-it").full_layers == (4, 9, 14, 19, 24, 29, 34)
    assert load_geometry("gemma-4-31B-it").full_layers == tuple(range(5, 60, 6))
    tiny = load_geometry("tiny")
    assert sorted(tiny.full_layers + tiny.sliding_layers) == list(range(9))


def test_only_e2b_doubles_the_mlp_of_shared_layers() -> None:
    e2b, e4b = load_geometry("gemma-4-E2B-it"), load_geometry("gemma-4-E4B-it")
    assert {e2b.intermediate_of(i) for i in e2b.shared_layers} == {12_288}
    assert {e2b.intermediate_of(i) for i in e2b.owner_layers} == {6_144}
    assert {e4b.intermediate_of(i) for i in range(42)} == {10_240}


def test_tiny_agrees_with_transformers_layer_by_layer() -> None:
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    shape = json.loads(geometry_path("tiny").read_text(encoding="utf-8"))
    # Looked up first: the library imports on demand, and torch_xla fails to import under a default device.
    build, settings = transformers.Gemma4ForConditionalGeneration, transformers.Gemma4Config(**shape)
    with torch.device("meta"):
        model = build(settings)
    text, geometry = model.model.language_model, load_geometry("tiny")
    assert sum(p.numel() for p in text.parameters()) == 2_257_296
    assert len(text.layers) == geometry.num_hidden_layers
    for i, layer in enumerate(text.layers):
        attention = layer.self_attn
        assert attention.is_kv_shared_layer == (i in geometry.shared_layers)
        assert attention.head_dim == geometry.head_dim_of(i)
        assert attention.is_sliding == (i in geometry.sliding_layers)
        assert layer.mlp.intermediate_size == geometry.intermediate_of(i)
        if i in geometry.owner_layers:
            assert attention.k_proj.out_features == geometry.kv_heads_of(i) * geometry.head_dim_of(i)
    donors = {i for i, layer in enumerate(text.layers) if layer.self_attn.store_full_length_kv}
    assert donors == {geometry.donor(i) for i in geometry.shared_layers} == {4, 5}
    assert max(v for k, v in shape.items() if k.endswith(("_token_id", "_token_index")) and k != "eos_token_id") < 2048


def _tiny(**changes: Any) -> dict[str, Any]:
    shape: dict[str, Any] = json.loads(geometry_path("tiny").read_text(encoding="utf-8"))
    shape["text_config"] |= changes
    return shape


@pytest.mark.parametrize(("k_eq_v", "heads"), [(False, 1), (True, 2)])
def test_global_key_value_heads_count_only_where_k_is_v(tmp_path: Path, k_eq_v: bool, heads: int) -> None:
    path = tmp_path / "config.json"
    shape = _tiny(num_global_key_value_heads=2, attention_k_eq_v=k_eq_v)
    path.write_text(json.dumps(shape), encoding="utf-8")
    geometry = load_geometry(path)
    assert {geometry.kv_heads_of(i) for i in geometry.full_layers} == {heads}
    assert {geometry.kv_heads_of(i) for i in geometry.sliding_layers} == {1}


@pytest.mark.parametrize(
    ("changes", "parts"),
    [
        ({"layer_types": ["full_attention"]}, ("layer_types", "1 entries", "one for each of the 9 layers")),
        ({"layer_types": ["full_attention"] * 8 + ["sliding_attention"]}, ("layer_types", "last layer")),
        ({"layer_types": None}, ("layer_types", "None")),
        ({"layer_types": ["linear"] * 9}, ("layer_types.0", "'linear'", "'full_attention'")),
        ({"num_kv_shared_layers": 8}, ("num_kv_shared_layers", "8", "full_attention without an owner")),
        ({"attention_k_eq_v": True}, ("num_global_key_value_heads", "nothing", "as attention_k_eq_v is true")),
        ({"enable_moe_block": True, "num_experts": 8}, ("top_k_experts", "nothing", "as enable_moe_block is true")),
        (
            {"enable_moe_block": True, "num_experts": 8, "top_k_experts": 9, "moe_intermediate_size": 8},
            ("top_k_experts", "9", "at most the 8 of num_experts"),
        ),
        ({"sliding_window": 0}, ("sliding_window", "0", "greater than 0")),
    ],
)
def test_unusable_geometry_is_refused(tmp_path: Path, changes: dict[str, Any], parts: tuple[str, ...]) -> None:
    path = tmp_path / "config.json"
    path.write_text(json.dumps(_tiny(**changes)), encoding="utf-8")
    with pytest.raises(BadInput) as caught:
        load_geometry(tmp_path)
    for part in (str(path), "accepted: ", *parts):
        assert part in str(caught.value)


@pytest.mark.parametrize(("content", "part"), [("{", "not JSON"), ("[]", "no text_config"), ("{}", "no text_config")])
def test_file_of_another_kind_is_refused(tmp_path: Path, content: str, part: str) -> None:
    path = tmp_path / "config.json"
    path.write_text(content, encoding="utf-8")
    with pytest.raises(BadInput, match=part):
        load_geometry(str(path))


def test_unknown_names_are_answered_with_the_known_ones() -> None:
    with pytest.raises(BadInput, match=r"geometry: found 'E2B'; accepted: gemma-4-12B-it, .*, tiny"):
        load_geometry("E2B")
    with pytest.raises(BadInput, match=r"reference: found '\.\./demo'; accepted: gemma-4-E2B-it"):
        reference_path("../demo")


def test_path_and_name_give_the_same_shape() -> None:
    by_name, by_path = load_geometry("tiny"), load_geometry(geometry_path("tiny"))
    assert by_path.model_copy(update={"name": "tiny"}) == by_name
    assert isinstance(by_name, Geometry)


def test_references_hold_greedy_ids_that_start_with_the_best_logit() -> None:
    for name in reference_names():
        for case in json.loads(reference_path(name).read_text(encoding="utf-8"))["cases"]:
            assert case["top8_logits"] == sorted(case["top8_logits"], reverse=True)
            assert case["greedy_ids"][0] == case["top8_ids"][0]

"""Random weights at the size of a geometry: what the library loads, and what memory it takes to write."""

from __future__ import annotations

import json
import resource
from hashlib import sha256
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors import safe_open
from transformers import AutoConfig, AutoModelForMultimodalLM, Gemma4ForConditionalGeneration

from config.geometry import geometry_path
from recipes import weights
from recipes.checkpoint import Checkpoint
from recipes.random_checkpoint import build_random, checkpoint_tensors, values
from serve.manifest import Parameter

TINY = geometry_path("tiny")
RECIPE = weights.WeightsRecipe(dtype="float32", tp=1, target="cpu")


def test_the_library_loads_it_and_misses_nothing(tmp_path: Path) -> None:
    build_random(tmp_path, geometry=TINY, seed=0)
    _, info = Gemma4ForConditionalGeneration.from_pretrained(tmp_path, output_loading_info=True, local_files_only=True)
    assert not info["missing_keys"]
    assert not info["mismatched_keys"]
    checkpoint = Checkpoint(tmp_path)
    shared = [name for name in checkpoint.names() if name.startswith("model.language_model.layers.8.self_attn.")]
    assert {name.rsplit(".", 2)[-2] for name in shared} >= {"k_proj", "v_proj", "k_norm"}
    assert "lm_head.weight" not in checkpoint.names()
    checkpoint.check_tokenizer()
    assert checkpoint.check_geometry("tiny")


def test_the_same_seed_gives_the_same_bytes_and_another_does_not(tmp_path: Path) -> None:
    digests = []
    for number, seed in enumerate((0, 0, 1)):
        folder = tmp_path / str(number)
        folder.mkdir()
        build_random(folder, geometry=TINY, seed=seed)
        digests.append(sha256((folder / "model.safetensors").read_bytes()).hexdigest())
    assert digests[0] == digests[1] != digests[2]


# SOURCES.md of the geometry: elements and tensors of the published files, the first two compared with their headers.
@pytest.mark.parametrize(
    ("name", "tensors", "elements"),
    [
        ("gemma-4-E2B-it", 2011, 5_123_178_979),
        ("gemma-4-E4B-it", 2130, 7_996_157_418),
        ("gemma-4-12B-it", 677, 11_959_730_224),
        ("gemma-4-26B-A4B-it", 1013, 25_805_936_206),
        ("gemma-4-31B-it", 1188, 31_273_088_876),
    ],
)
def test_it_holds_what_the_published_file_holds(name: str, tensors: int, elements: int) -> None:
    config = json.loads(geometry_path(name).read_text())
    found = list(checkpoint_tensors(config))
    assert len(found) == tensors
    assert sum(int(np.prod(tensor.shape, dtype=np.int64)) for tensor in found) == elements


@pytest.mark.parametrize("name", ["tiny-gqa", "tiny-unified", "tiny-moe", "tiny-dense"])
def test_the_library_and_the_graph_use_every_tensor_of_other_kinds(name: str, tmp_path: Path) -> None:
    build_random(tmp_path, geometry=geometry_path(name), seed=0)
    _, info = AutoModelForMultimodalLM.from_pretrained(tmp_path, output_loading_info=True, local_files_only=True)
    assert not any(info[kind] for kind in ("missing_keys", "unexpected_keys", "mismatched_keys"))
    checkpoint = Checkpoint(tmp_path)
    checkpoint.check_config()
    assert checkpoint.check_geometry(name)
    text = checkpoint.text_config
    stored = {weights.stored_name(w.name) for w in weights.graph_weights(text, RECIPE)}
    derived = {"lm_head.weight", *weights.rope_frequencies(text)}
    weights.check_coverage(checkpoint.names(), stored - derived, 6 if name == "tiny-gqa" else 99)


def test_published_names_of_the_unified_towers_are_those_the_library_saves(tmp_path: Path) -> None:
    config = AutoConfig.for_model(**json.loads(geometry_path("tiny-unified").read_text()))
    AutoModelForMultimodalLM.from_config(config, dtype=torch.bfloat16).save_pretrained(tmp_path)
    with safe_open(tmp_path / "model.safetensors", "pt") as file:
        saved = set(file.keys())
    assert saved == {t.name for t in checkpoint_tensors(json.loads(geometry_path("tiny-unified").read_text()))}


def test_values_are_small_and_of_both_signs() -> None:
    weight = Parameter(name="a.weight", role="weight", shape=(64, 128), dtype="bfloat16")
    made = np.concatenate(list(values(weight, 0))).astype(np.float32)
    assert made.shape == (64 * 128,)
    assert (np.abs(made) >= 1 / 64).all()
    assert (np.abs(made) < 1 / 32).all()
    assert abs(float(np.mean(made > 0)) - 0.5) < 0.05


@pytest.mark.parametrize(
    ("name", "low", "high"),
    [("layers.3.layer_scalar", 0.1, 0.6), ("layers.3.self_attn.k_norm.weight", 0.06, 0.18), ("norm.weight", 0.5, 1.5)],
)
def test_vectors_are_in_the_ranges_of_published_ones(name: str, low: float, high: float) -> None:
    made = next(values(Parameter(name=name, role="weight", shape=(512,), dtype="bfloat16"), 0)).astype(np.float32)
    assert low <= made.min() < made.max() <= high * 1.01
    assert abs(float(made.mean()) - (low + high) / 2) < (high - low) / 10


def test_a_large_tensor_is_made_in_pieces() -> None:
    large = Parameter(name="table", role="weight", shape=(1 << 15, 1 << 12), dtype="bfloat16")
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    pieces = [piece.size for piece in values(large, 0)]
    assert sum(pieces) == 1 << 27
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 512 << 10

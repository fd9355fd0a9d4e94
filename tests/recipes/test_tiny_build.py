"""The demo checkpoint's files, read back with safetensors and transformers, which its writer does not use to write."""

from __future__ import annotations

import json
import math
import re
import subprocess
import sys
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors import safe_open
from transformers import AutoConfig, Gemma4ForConditionalGeneration

from config.geometry import geometry_path
from ledger.errors import GateFailed
from recipes.tiny import build
from tests.recipes.conftest import SEED, STEPS

Tiny = tuple[Path, dict[str, Any]]
DECOY = re.compile(r"model\.language_model\.layers\.([678])\.self_attn\.(k_proj|v_proj|k_norm)\.weight")


def stored(folder: Path) -> dict[str, torch.Tensor]:
    tensors: dict[str, torch.Tensor] = {}
    for path in sorted(folder.glob("*.safetensors")):
        with safe_open(path, "pt") as file:
            tensors |= {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118  (no mapping)
    return tensors


def test_folder_has_the_official_files(tiny: Tiny) -> None:
    assert sorted(path.name for path in tiny[0].iterdir()) == [
        "chat_template.jinja",
        "config.json",
        "generation_config.json",
        "model-00001-of-00002.safetensors",
        "model-00002-of-00002.safetensors",
        "model.safetensors.index.json",
        "tokenizer.json",
        "tokenizer_config.json",
    ]
    assert (tiny[0] / "config.json").read_bytes() == geometry_path("tiny").read_bytes()


def test_generation_config_is_that_of_the_official_12b(tiny: Tiny) -> None:
    found = json.loads((tiny[0] / "generation_config.json").read_text())
    found.pop("transformers_version")
    assert found == {
        "bos_token_id": 2,
        "pad_token_id": 0,
        "eos_token_id": [1, 106, 50],
        "do_sample": True,
        "temperature": 1.0,
        "top_k": 64,
        "top_p": 0.95,
        "suppress_tokens": [2045, 2044],
    }


def test_tensors_are_bfloat16_under_the_official_prefixes_and_indexed(tiny: Tiny) -> None:
    tensors = stored(tiny[0])
    assert {tensor.dtype for tensor in tensors.values()} == {torch.bfloat16}
    assert {".".join(name.split(".")[:2]) for name in tensors} == {
        "model.language_model",
        "model.vision_tower",
        "model.audio_tower",
        "model.embed_vision",
        "model.embed_audio",
    }
    index = json.loads((tiny[0] / "model.safetensors.index.json").read_text())
    assert index["weight_map"].keys() == tensors.keys()
    assert len(set(index["weight_map"].values())) == 2
    assert index["metadata"]["total_size"] == sum(tensor.nbytes for tensor in tensors.values())
    text = sum(t.numel() for name, t in tensors.items() if name.startswith("model.language_model."))
    assert 2e6 < text < 2.5e6


def test_transformers_misses_nothing_and_only_the_decoys_are_extra(tiny: Tiny) -> None:
    model, info = Gemma4ForConditionalGeneration.from_pretrained(
        tiny[0], dtype=torch.bfloat16, output_loading_info=True
    )
    assert not any(info[kind] for kind in ("missing_keys", "unexpected_keys", "mismatched_keys"))
    tensors, state = stored(tiny[0]), model.state_dict()
    extra = tensors.keys() - state.keys()
    assert len(extra) == 9
    assert all(DECOY.fullmatch(name) for name in extra)
    assert state.keys() - tensors.keys() == {"lm_head.weight"}
    assert all(torch.equal(state[name], tensor) for name, tensor in tensors.items() if name not in extra)


def test_decoys_look_untrained_and_have_the_shapes_of_owners(tiny: Tiny) -> None:
    tensors = stored(tiny[0])
    decoys = {name: tensor for name, tensor in tensors.items() if DECOY.fullmatch(name)}
    for name, tensor in decoys.items():
        owner = re.sub(r"layers\.\d", "layers.5" if ".8." in name else "layers.4", name)
        assert tensor.shape == tensors[owner].shape
        assert tensor.abs().max() <= 0.0552
    pooled = torch.cat([tensor.float().flatten() for tensor in decoys.values()])
    assert pooled.std().item() == pytest.approx(0.055 / math.sqrt(3), rel=0.05)
    assert abs(pooled.mean().item()) < 0.001


def test_layer_scalars_differ_and_are_far_from_one(tiny: Tiny) -> None:
    scalars = [stored(tiny[0])[f"model.language_model.layers.{layer}.layer_scalar"] for layer in range(9)]
    assert all(scalar.shape == (1,) for scalar in scalars)
    values = [scalar.item() for scalar in scalars]
    assert len(set(values)) == 9
    assert all(0.3 < value < 0.85 for value in values)


def test_loss_falls_and_is_measured_on_the_written_files(tiny: Tiny) -> None:
    facts = tiny[1]
    assert facts["heldout_loss"] < facts["untrained_loss"] - 0.5
    assert facts["untrained_loss"] > math.log(2048) - 0.1
    assert facts["tokens"] == STEPS * 2 * 256
    assert facts["tensors"] == len(stored(tiny[0]))
    assert facts["measured"].keys() == {"tiny_prepare_seconds", "tiny_train_seconds", "tiny_seconds"}


def test_another_process_writes_the_same_bytes(tiny: Tiny, tmp_path: Path) -> None:
    program = (
        "import sys; from pathlib import Path; from recipes.tiny.build import build_tiny\n"
        f"build_tiny(Path(sys.argv[1]), geometry=Path(sys.argv[2]), seed={SEED}, steps={STEPS})"
    )
    command = [sys.executable, "-c", program, str(tmp_path), str(geometry_path("tiny"))]
    subprocess.run(command, check=True, cwd=Path(build.__file__).parents[2], stdout=subprocess.DEVNULL)
    for path in tiny[0].iterdir():
        assert sha256(path.read_bytes()).digest() == sha256((tmp_path / path.name).read_bytes()).digest(), path.name


def test_an_untrained_checkpoint_fails_its_bound(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(build, "DEFAULT_STEPS", 1)
    with pytest.raises(GateFailed, match=r"held-out loss after 1 steps is [78]\.\d+ nats per token; accepted: at most"):
        build.build_tiny(tmp_path, geometry=geometry_path("tiny"), seed=0, steps=1)


def test_bound_holds_for_full_runs_only_and_refuses_nan() -> None:
    build.judge(build.HELDOUT_BOUND, build.DEFAULT_STEPS)
    build.judge(99.0, build.DEFAULT_STEPS - 1)
    with pytest.raises(GateFailed, match="is nan nats"):
        build.judge(math.nan, build.DEFAULT_STEPS)
    assert math.log(2048) - build.HELDOUT_BOUND > 2


def test_build_leaves_torch_as_it_found_it(tiny: Tiny) -> None:
    from recipes.tiny.training import reproducible

    threads, state = torch.get_num_threads(), torch.random.get_rng_state()
    with reproducible():
        torch.manual_seed(1)
        assert torch.are_deterministic_algorithms_enabled()
    assert torch.get_num_threads() == threads
    assert torch.equal(torch.random.get_rng_state(), state)
    assert not torch.are_deterministic_algorithms_enabled()


def test_config_is_a_gemma4_of_nine_layers(tiny: Tiny) -> None:
    config = AutoConfig.from_pretrained(tiny[0])
    assert config.model_type == "gemma4"
    assert config.text_config.num_hidden_layers == 9

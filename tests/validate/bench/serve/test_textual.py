"""The text model alone, out of a checkpoint in the official layout."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from tests.build import TEXT_CONFIG, write_checkpoint
from validate.bench.serve.textual import write_textual


def test_the_text_model_and_nothing_else(tmp_path: Path) -> None:
    whole, text = tmp_path / "whole", tmp_path / "text"
    whole.mkdir()
    text.mkdir()
    tensors = {
        "model.language_model.norm.weight": torch.arange(3.0),
        "model.language_model.layers.0.layer_scalar": torch.full((1,), 0.5),
        "model.vision_tower.std_bias": torch.zeros(2),
    }
    write_checkpoint(whole, TEXT_CONFIG, tensors)
    (whole / "tokenizer_config.json").write_text('{"bos_token": "<bos>", "processor_class": "Gemma4Processor"}')
    write_textual({path.name: path for path in whole.iterdir()}, text)
    found = load_file(text / "model.safetensors")
    assert {name: tensor.tolist() for name, tensor in found.items()} == {
        "model.norm.weight": [0.0, 1.0, 2.0],
        "model.layers.0.layer_scalar": [0.5],
    }
    config = json.loads((text / "config.json").read_bytes())
    assert config == TEXT_CONFIG | {"architectures": ["Gemma4ForCausalLM"]}
    assert json.loads((text / "tokenizer_config.json").read_bytes()) == {"bos_token": "<bos>"}
    for name in ("chat_template.jinja", "generation_config.json", "tokenizer.json"):
        assert (text / name).read_bytes() == (whole / name).read_bytes()


def test_another_kind_is_refused_by_name(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"text_config": {"model_type": "other"}}')
    with pytest.raises(ValueError, match=r"text_config\.model_type is other; gemma4_text is accepted"):
        write_textual({"config.json": tmp_path / "config.json"}, tmp_path)

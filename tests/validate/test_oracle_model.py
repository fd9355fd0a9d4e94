"""The oracle with narrow tables is, bit for bit, the library's own float32 model."""

from __future__ import annotations

from pathlib import Path

import torch
from transformers import Gemma4ForConditionalGeneration

from config.geometry import geometry_path
from recipes.random_checkpoint import build_random
from validate.oracle_model import OracleModel

IDS = [2, *range(700, 860)]


def test_logits_are_those_of_a_float32_model(tmp_path: Path) -> None:
    build_random(tmp_path, geometry=geometry_path("tiny"), seed=3)
    library = Gemma4ForConditionalGeneration.from_pretrained(
        tmp_path, dtype=torch.float32, attn_implementation="eager", local_files_only=True
    ).eval()
    oracle = OracleModel(tmp_path, threads=1)
    with torch.inference_mode():
        expected = library(input_ids=torch.tensor([IDS]), use_cache=False, logits_to_keep=1).logits[0, -1]
    assert torch.equal(oracle.last_logits(IDS), expected)


def test_tables_stay_as_stored_and_the_rest_is_widened(tmp_path: Path) -> None:
    build_random(tmp_path, geometry=geometry_path("tiny"), seed=3)
    text = OracleModel(tmp_path, threads=1).model.model.language_model
    narrow = {name for name, tensor in text.named_parameters() if tensor.dtype == torch.bfloat16}
    assert narrow == {"embed_tokens.weight", "embed_tokens_per_layer.weight"}
    assert {tensor.dtype for tensor in text.buffers()} == {torch.float32}

"""The oracle over every other kind: the library's own class by config.json, and its answers in float32."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from transformers import Gemma4ForConditionalGeneration, Gemma4UnifiedForConditionalGeneration

from config.geometry import geometry_path
from recipes.random_checkpoint import build_random
from validate.oracle_model import OracleModel

KINDS = {
    "tiny-gqa": Gemma4ForConditionalGeneration,
    "tiny-unified": Gemma4UnifiedForConditionalGeneration,
    "tiny-moe": Gemma4ForConditionalGeneration,
    "tiny-dense": Gemma4ForConditionalGeneration,
}


@pytest.mark.parametrize("name", KINDS)
def test_answers_are_those_of_the_whole_model_in_float32(name: str, tmp_path: Path) -> None:
    build_random(tmp_path, geometry=geometry_path(name), seed=0)
    oracle = OracleModel(tmp_path, threads=1)
    assert type(oracle.model) is KINDS[name]
    whole = KINDS[name].from_pretrained(tmp_path, dtype=torch.float32, attn_implementation="eager").eval()
    ids = [2, *range(400, 480)]
    with torch.no_grad():
        exact = whole(input_ids=torch.tensor([ids])).logits[0]
    assert oracle.last_logits(ids) == pytest.approx(exact[-1], abs=2e-4)
    exact[:, [2044, 2045]] = -torch.inf  # the ends of image and audio, which generation_config.json suppresses
    made = oracle.generate(ids, max_new=3, stop=False)
    assert made.tokens[0] == exact[-1].argmax()
    assert oracle.forced(ids + made.tokens, start=len(ids) - 1).tokens[:3] == made.tokens

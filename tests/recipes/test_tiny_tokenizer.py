"""The demo tokenizer as transformers loads it, against the official table of special tokens and turn structure."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer
from transformers import AutoTokenizer

from config.geometry import geometry_path
from ledger.errors import BadInput
from recipes.tiny.tokenizer import special_ids

Tiny = tuple[Path, dict[str, Any]]

# Ids of google/gemma-4-E2B-it, tokenizer.json at 9dbdf8a8; the media tokens are placed by the tiny geometry.
OFFICIAL = {
    "<pad>": 0,
    "<eos>": 1,
    "<bos>": 2,
    "<unk>": 3,
    "<mask>": 4,
    "<|tool>": 46,
    "<tool|>": 47,
    "<|tool_call>": 48,
    "<tool_call|>": 49,
    "<|tool_response>": 50,
    "<tool_response|>": 51,
    '<|"|>': 52,
    "<|think|>": 98,
    "<|channel>": 100,
    "<channel|>": 101,
    "<|turn>": 105,
    "<turn|>": 106,
    "\n": 107,
}
MEDIA = ("<|image|>", "<|audio|>", "<|image>", "<|audio>", "<image|>", "<audio|>", "<|video|>")


@pytest.fixture(scope="module")
def loaded(tiny: Tiny) -> Any:
    return AutoTokenizer.from_pretrained(tiny[0])


@pytest.fixture(scope="module")
def raw(tiny: Tiny) -> Tokenizer:
    return Tokenizer.from_file(str(tiny[0] / "tokenizer.json"))


def test_special_tokens_have_the_official_ids(loaded: Any) -> None:
    assert {token: loaded.convert_tokens_to_ids(token) for token in OFFICIAL} == OFFICIAL
    assert [loaded.convert_tokens_to_ids(token) for token in MEDIA] == list(range(2040, 2047))


def test_there_are_24_special_tokens_and_each_is_one_id_inside_text(loaded: Any, raw: Tokenizer) -> None:
    special = {token for token in (*OFFICIAL, *MEDIA) if token != "\n"}
    assert {added.content for added in raw.get_added_tokens_decoder().values() if added.special} == special
    assert len(special) == 24
    for token in special:
        assert loaded.encode(f"a{token}b", add_special_tokens=False)[1] == loaded.convert_tokens_to_ids(token)


def test_ids_fill_the_vocabulary_without_a_gap(raw: Tokenizer) -> None:
    assert sorted(raw.get_vocab().values()) == list(range(2048))


def test_pipeline_is_gemmas(tiny: Tiny) -> None:
    found = json.loads((tiny[0] / "tokenizer.json").read_text(encoding="utf-8"))
    assert found["normalizer"] == {"type": "Replace", "pattern": {"String": " "}, "content": "\u2581"}
    assert found["pre_tokenizer"]["pattern"] == {"String": " "}
    assert found["pre_tokenizer"]["behavior"] == "MergedWithPrevious"
    assert [step["type"] for step in found["decoder"]["decoders"]] == ["Replace", "ByteFallback", "Fuse"]
    assert found["post_processor"] is None
    assert found["model"]["byte_fallback"] is True


def test_transformers_loads_it_as_gemmas_and_adds_no_bos(loaded: Any, raw: Tokenizer) -> None:
    assert type(loaded).__name__ == "GemmaTokenizer"
    for text in ("hello world", "", "   ", "def f(x):\n    return x  # é 日本\n", "a  b   c    d"):
        assert loaded(text).input_ids == raw.encode(text).ids
    assert loaded.decode(loaded("hello world").input_ids) == "hello world"
    assert (loaded.bos_token_id, loaded.eos_token_id, loaded.pad_token_id, loaded.unk_token_id) == (2, 1, 0, 3)
    assert (loaded.sot_token, loaded.eot_token, loaded.padding_side) == ("<|turn>", "<turn|>", "left")


def test_plain_words_cost_few_tokens(raw: Tokenizer) -> None:
    text = "Return the number of items in the list, or raise ValueError if the argument is not valid."
    assert len(raw.encode(text).ids) < len(text) / 2.5


# U+2581 is what a space becomes; it comes back as a space in the official tokenizer too.
@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(text=st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\u2581"), max_size=60))
def test_any_text_round_trips(raw: Tokenizer, text: str) -> None:
    ids = raw.encode(text).ids
    assert raw.decode(ids, skip_special_tokens=False) == text
    assert 3 not in ids


@pytest.mark.parametrize(
    ("messages", "options", "rendered"),
    [
        (
            [{"role": "user", "content": "  What is a?\n"}],
            {"add_generation_prompt": True},
            "<bos><|turn>user\nWhat is a?<turn|>\n<|turn>model\n",
        ),
        (
            [{"role": "system", "content": " Be brief. "}, {"role": "user", "content": "a"}],
            {"add_generation_prompt": True},
            "<bos><|turn>system\nBe brief.<turn|>\n<|turn>user\na<turn|>\n<|turn>model\n",
        ),
        (
            [{"role": "developer", "content": "Be brief."}, {"role": "user", "content": "a"}],
            {"enable_thinking": True},
            "<bos><|turn>system\n<|think|>\nBe brief.<turn|>\n<|turn>user\na<turn|>\n",
        ),
        (
            [{"role": "user", "content": "a"}],
            {"enable_thinking": True, "add_generation_prompt": True},
            "<bos><|turn>system\n<|think|>\n<turn|>\n<|turn>user\na<turn|>\n<|turn>model\n",
        ),
        (
            [
                {"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "image"}]},
                {"role": "assistant", "content": "<|channel>thought\nhm\n<channel|>b "},
                {"role": "user", "content": "c"},
            ],
            {"add_generation_prompt": True},
            "<bos><|turn>user\na<turn|>\n<|turn>model\nb<turn|>\n<|turn>user\nc<turn|>\n<|turn>model\n",
        ),
    ],
)
def test_chat_turns(loaded: Any, messages: list[dict[str, Any]], options: dict[str, bool], rendered: str) -> None:
    assert loaded.apply_chat_template(messages, tokenize=False, **options) == rendered


def test_rendered_chat_has_the_official_skeleton_of_ids(loaded: Any, raw: Tokenizer) -> None:
    text = loaded.apply_chat_template([{"role": "user", "content": "Hi"}], tokenize=False, add_generation_prompt=True)
    user, model, word = (raw.encode(piece).ids for piece in ("user", "model", "Hi"))
    expected = [2, 105, *user, 107, *word, 106, 107, 105, *model, 107]
    assert raw.encode(text, add_special_tokens=False).ids == expected


def test_one_id_for_two_special_tokens_is_refused() -> None:
    config = json.loads(geometry_path("tiny").read_text())
    with pytest.raises(BadInput, match=r"video_token_id is 2046, which is another token already"):
        special_ids(config | {"image_token_id": config["video_token_id"]})

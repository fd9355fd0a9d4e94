"""The files of a checkpoint as `Text`: ids as the library's, BOS, defaults, and what is wrong with damaged files."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from tokenizers import Tokenizer

from serve.errors import ServeError
from serve.text.defaults import Defaults
from serve.text.tokenizer import Text
from tests.serve.text.cases import words


def load(folder: Path) -> Text:
    return Text.from_files(
        folder / "tokenizer.json",
        folder / "tokenizer_config.json",
        folder / "chat_template.jinja",
        folder / "generation_config.json",
    )


@pytest.fixture
def copied(folder: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(folder, tmp_path / "copy"))


def test_ids_are_the_librarys_and_come_back(text: Text, tokenizer: Tokenizer) -> None:
    @given(words())
    def law(string: str) -> None:
        ids = text.encode(string, add_special=False)
        assert ids == tokenizer.encode(string, add_special_tokens=False).ids
        assert text.decode(ids) == string

    law()


def test_bos_is_put_before_a_raw_prompt_once(text: Text) -> None:
    plain = text.encode("hello", add_special=False)
    assert text.encode("hello", add_special=True) == [2, *plain]
    assert text.encode("<bos>hello", add_special=True) == text.encode("<bos>hello", add_special=False) == [2, *plain]
    assert (text.encode("", add_special=True), text.encode("", add_special=False)) == ([2], [])


def test_decoding_leaves_special_tokens_out_unless_told(text: Text) -> None:
    ids = text.encode("<bos>a<turn|>", add_special=False)
    assert (text.decode(ids), text.decode(ids, skip_special=False)) == ("a", "<bos>a<turn|>")


def test_text_that_utf8_cannot_carry_is_refused(text: Text) -> None:
    with pytest.raises(ServeError, match=r"^the text holds half of a surrogate pair; .* is accepted$"):
        text.encode("a\ud83d", add_special=False)


def test_special_tokens_and_defaults_are_the_files(text: Text) -> None:
    assert {text.pieces.special[id_] for id_ in (2, 48, 49, 52, 100, 101, 106)} == {
        "<bos>", "<|tool_call>", "<tool_call|>", '<|"|>', "<|channel>", "<channel|>", "<turn|>",
    }  # fmt: skip
    assert text.defaults == Defaults(1.0, 64, 0.95)
    assert text.has_template


def test_truncation_and_padding_of_a_file_are_not_applied(copied: Path) -> None:
    saved = Tokenizer.from_file(str(copied / "tokenizer.json"))
    saved.enable_truncation(3)
    saved.enable_padding(length=50)
    saved.save(str(copied / "tokenizer.json"))
    loaded = load(copied)
    assert loaded.decode(loaded.encode("one two three four", add_special=False)) == "one two three four"
    assert len(loaded.encode("a", add_special=False)) == 1


def test_a_base_checkpoint_has_no_template_and_needs_no_generation_config(folder: Path) -> None:
    text = Text.from_files(folder / "tokenizer.json", folder / "tokenizer_config.json")
    assert (text.has_template, text.defaults) == (False, Defaults(1.0, 0, 1.0))
    with pytest.raises(ServeError, match=r"^this checkpoint has no chat template; raw prompts are accepted$"):
        text.render([{"role": "user", "content": "a"}])


def test_bos_may_be_an_object_in_the_config(copied: Path) -> None:
    path = copied / "tokenizer_config.json"
    path.write_text(json.dumps({"bos_token": {"__type": "AddedToken", "content": "<bos>"}, "eos_token": None}))
    text = load(copied)
    assert text.encode("", add_special=True) == [2]
    assert text.render([{"role": "user", "content": "a"}]).startswith("<bos><|turn>user\n")


@pytest.mark.parametrize(
    ("name", "content", "sentence"),
    [
        ("tokenizer.json", b"{}", r"tokenizer\.json is no tokenizer \(.*\); a tokenizer\.json is accepted"),
        ("tokenizer_config.json", b"{", r"tokenizer_config\.json is not JSON \(.*\); a JSON object is accepted"),
        ("tokenizer_config.json", b"[]", r"tokenizer_config\.json is a JSON list; a JSON object is accepted"),
        ("chat_template.jinja", b"a\xff", r"chat_template\.jinja: byte 1 is not UTF-8; a text file is accepted"),
        ("chat_template.jinja", b"{{", r"chat_template\.jinja does not compile \(.*\); a Jinja .* is accepted"),
        ("generation_config.json", b'{"top_k": "x"}', r"generation_config\.json: top_k is 'x'; a number is accepted"),
    ],
)
def test_a_damaged_file_is_one_sentence(copied: Path, name: str, content: bytes, sentence: str) -> None:
    (copied / name).write_bytes(content)
    with pytest.raises(ServeError, match=rf"^[^\n]*/{sentence}$"):
        load(copied)


@pytest.mark.parametrize("name", ["tokenizer.json", "tokenizer_config.json", "chat_template.jinja"])
def test_a_missing_file_is_named(copied: Path, name: str) -> None:
    (copied / name).unlink()
    with pytest.raises(ServeError, match=rf"/{name}.* is accepted$"):
        load(copied)


@pytest.mark.parametrize(
    ("generation", "defaults"),
    [
        ({}, Defaults(1.0, 0, 1.0)),
        ({"temperature": None, "top_k": 5}, Defaults(1.0, 5, 1.0)),
        ({"do_sample": False, "temperature": 0.7, "top_k": 64.0, "top_p": 0.9}, Defaults(0.0, 64, 0.9)),
    ],
)
def test_defaults_of_a_generation_config(generation: dict[str, Any], defaults: Defaults) -> None:
    assert Defaults.of(generation, "g.json") == defaults


@pytest.mark.parametrize(
    "generation",
    [
        {"temperature": -1},
        {"top_k": float("inf")},
        {"top_k": -1},
        {"top_k": 1.5},
        {"top_p": 0},
        {"top_p": 1.1},
        {"temperature": float("nan")},
    ],
)
def test_defaults_that_are_none_are_refused(generation: dict[str, Any]) -> None:
    with pytest.raises(ServeError, match=r"^g\.json: temperature .*, top_k .*, top_p .*; .* are accepted$"):
        Defaults.of(generation, "g.json")


def test_a_boolean_is_no_number() -> None:
    with pytest.raises(ServeError, match=r"^g\.json: top_k is True; a number is accepted$"):
        Defaults.of({"top_k": True}, "g.json")

"""Encoding against transformers' own tokenizer and chat template code."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from ledger.errors import BadInput
from tests.validate.conftest import BOS
from validate.encode import Encoder

CHATS: list[list[dict[str, str]]] = [
    [{"role": "user", "content": "  Hello there  "}],
    [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "Κόσμε 👩\u200d🚀"},
        {"role": "assistant", "content": "yes<turn|>"},
        {"role": "user", "content": "{{ 7 * 7 }} <bos>"},
    ],
]


@pytest.fixture(scope="module")
def library(checkpoint: Path) -> Any:
    """transformers' view of the same files."""
    from transformers import PreTrainedTokenizerFast

    return PreTrainedTokenizerFast(
        tokenizer_file=str(checkpoint / "tokenizer.json"),
        chat_template=(checkpoint / "chat_template.jinja").read_text(),
        bos_token="<bos>",
    )


@pytest.mark.parametrize("chat", CHATS, ids=["one-turn", "four-turns"])
def test_a_chat_is_what_the_library_renders(encoder: Encoder, library: Any, chat: list[dict[str, str]]) -> None:
    expected = library.apply_chat_template(chat, add_generation_prompt=True, return_dict=False)
    assert encoder.chat(chat) == expected
    assert expected[0] == BOS


@pytest.mark.parametrize("text", ["plain", "two  spaces\n\nlines", "<|turn>user\n<turn|>", "日本\u2028語", ""])
def test_text_is_bos_and_the_librarys_ids(encoder: Encoder, library: Any, text: str) -> None:
    assert encoder.text(text) == [BOS, *library.encode(text, add_special_tokens=False)]


def test_a_text_that_begins_with_bos_gets_no_second_one(encoder: Encoder) -> None:
    assert encoder.text("<bos>hi") == encoder.text("hi")


def test_ids_of_images_and_sounds_are_known(encoder: Encoder) -> None:
    assert encoder.placeholders == {507, 508, 511}


def test_messages_the_template_refuses(encoder: Encoder) -> None:
    with pytest.raises(BadInput, match=r"chat_template\.jinja refuses the messages: no such role"):
        encoder.chat([{"role": "owner", "content": "x"}])


def _copied(checkpoint: Path, to: Path) -> Path:
    for name in ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja"):
        shutil.copy(checkpoint / name, to)
    return to


@pytest.mark.parametrize(
    ("template", "reason"),
    [("{{ messages.__class__.__base__.__subclasses__() }}", "unsafe"), ("{{ messages + 1 }}", "concatenate")],
    ids=["reaches-for-python", "type-error"],
)
def test_a_template_that_fails(checkpoint: Path, tmp_path: Path, template: str, reason: str) -> None:
    _copied(checkpoint, tmp_path)
    (tmp_path / "chat_template.jinja").write_text(template)
    with pytest.raises(BadInput, match=f"refuses the messages: .*{reason}"):
        Encoder.from_folder(tmp_path).chat(CHATS[0])


def test_a_template_without_bos_is_refused(checkpoint: Path, tmp_path: Path) -> None:
    _copied(checkpoint, tmp_path)
    (tmp_path / "chat_template.jinja").write_text("{{ messages[0]['content'] }}")
    with pytest.raises(BadInput, match="accepted: BOS, 2"):
        Encoder.from_folder(tmp_path).chat(CHATS[0])


def test_files_that_are_missing_or_wrong(checkpoint: Path, tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="nowhere is no folder"):
        Encoder.from_folder(tmp_path / "nowhere")
    with pytest.raises(BadInput, match=r"tokenizer\.json is missing"):
        Encoder.from_folder(tmp_path)
    _copied(checkpoint, tmp_path)
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"bos_token": {"content": "<begin>"}}))
    with pytest.raises(BadInput, match="bos_token is '<begin>'"):
        Encoder.from_folder(tmp_path)
    (tmp_path / "tokenizer_config.json").write_text("[]")
    with pytest.raises(BadInput, match=r"tokenizer_config\.json holds a list"):
        Encoder.from_folder(tmp_path)
    _copied(checkpoint, tmp_path)
    (tmp_path / "tokenizer.json").write_text("{")
    with pytest.raises(BadInput, match=r"tokenizer\.json is no tokenizer"):
        Encoder.from_folder(tmp_path)

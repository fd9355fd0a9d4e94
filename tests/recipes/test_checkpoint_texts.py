"""What is refused of a checkpoint's texts: tokenizer, chat template, and the licence that its card states."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from recipes.checkpoint import Checkpoint
from tests.recipes.test_checkpoint import edit, refused

Copied = Callable[[], Path]


def test_stop_id_that_the_tokenizer_does_not_know(copied: Copied) -> None:
    folder = copied()
    edit(folder / "generation_config.json", eos_token_id=[1, 106, 9999])
    with refused(r"generation_config\.json: eos_token_id is 9999; accepted: an id of .*tokenizer\.json, 0 to 2047"):
        Checkpoint(folder).check_tokenizer()


def test_tokenizer_that_is_none(copied: Copied) -> None:
    folder = copied()
    (folder / "tokenizer.json").write_text('{"version": "1.0"}')
    with refused(r"tokenizer\.json is no tokenizer \(.*\); accepted: a tokenizer\.json of tokenizers"):
        Checkpoint(folder).check_tokenizer()


def test_tokenizer_that_cannot_spell(copied: Copied) -> None:
    folder = copied()
    document = json.loads((folder / "tokenizer.json").read_text(encoding="utf-8"))
    vocab = document["model"]["vocab"]
    document["model"] |= {
        "byte_fallback": False,
        "merges": [],
        "vocab": {piece: id_ for piece, id_ in vocab.items() if piece != "w"},
    }
    (folder / "tokenizer.json").write_text(json.dumps(document), encoding="utf-8")
    with refused(r"tokenizer\.json turns 'hello world' into \[.*'<unk>'.*\] and back into .*; accepted: 'hello world'"):
        Checkpoint(folder).check_tokenizer()


def test_tokenizer_that_does_not_give_the_text_back(copied: Copied) -> None:
    folder = copied()
    edit(folder / "tokenizer.json", decoder={"type": "Fuse"})
    with refused("and back into 'hello\u2581world'; accepted: 'hello world'"):
        Checkpoint(folder).check_tokenizer()


def test_another_chat_template(copied: Copied) -> None:
    folder = copied()
    pin = Checkpoint(folder).template_sha256
    with (folder / "chat_template.jinja").open("a") as file:
        file.write(" ")
    with refused(rf"chat_template\.jinja has sha256 \w+; accepted: {pin}, as pinned"):
        Checkpoint(folder).check_template(pin)
    Checkpoint(folder).check_template(None)


@pytest.mark.parametrize("stated", ["gemma", "[mit]"])
def test_another_licence(copied: Copied, stated: str) -> None:
    folder = copied()
    (folder / "README.md").write_text(f"---\nlicense: {stated}\ntags: [a]\n---\n# Title\n")
    with refused(r"README\.md: license is .*; accepted: 'apache-2\.0', as configured under licence"):
        Checkpoint(folder).check_licence("apache-2.0")


def test_front_matter_that_is_not_yaml(copied: Copied) -> None:
    folder = copied()
    (folder / "README.md").write_text("---\nlicense: [\n---\n")
    with refused(r"README\.md: the front matter is not readable \(.*\); accepted: valid YAML"):
        Checkpoint(folder).check_licence("apache-2.0")


@pytest.mark.parametrize("text", ["# license: gemma\n", "", "---\nlicense: Apache-2.0\n---\n", "---\ntags: [a]\n---\n"])
def test_licence_is_the_accepted_one_or_not_stated(copied: Copied, text: str) -> None:
    folder = copied()
    (folder / "README.md").write_text(text)
    Checkpoint(folder).check_licence("apache-2.0")


@pytest.mark.parametrize("license_", ["2024-13-45", "{? {a: b} : c}", "!!bool x", "[" * 5000], ids=range(4))
def test_front_matter_that_yaml_stumbles_over(copied: Copied, license_: str) -> None:
    folder = copied()
    (folder / "README.md").write_text(f"---\nlicense: {license_}\n---\n")
    with refused(r"README\.md: the front matter is not readable \(.*\); accepted: valid YAML"):
        Checkpoint(folder).check_licence("apache-2.0")


def test_card_that_is_not_utf8_or_begins_with_a_byte_order_mark(copied: Copied) -> None:
    folder = copied()
    (folder / "README.md").write_bytes(b"---\n\xff")
    with refused(r"README\.md is not UTF-8 at byte 4; accepted: a model card in UTF-8"):
        Checkpoint(folder).check_licence("apache-2.0")
    (folder / "README.md").write_bytes(b"\xef\xbb\xbf---\nlicense: gemma\n---\n")
    with refused(r"README\.md: license is 'gemma'; accepted: 'apache-2\.0'"):
        Checkpoint(folder).check_licence("apache-2.0")


@pytest.mark.parametrize("template", [b"\xff", b"{{ 1 // 0 }}"])
def test_template_that_is_none(copied: Copied, template: bytes) -> None:
    folder = copied()
    (folder / "chat_template.jinja").write_bytes(template)
    with refused(r"chat_template\.jinja (does not compile|cannot render a plain turn) \(.*; accepted: a Jinja"):
        Checkpoint(folder).check_template(None)

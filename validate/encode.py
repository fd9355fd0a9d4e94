"""Text and chats to token ids, with the files of one checkpoint and nothing else.

Departs from `AutoTokenizer`: no transformers, so that a process under test may use it. `add_special_tokens` is never
on: the published tokenizers add no BOS and the template writes it, so a text gets BOS here and a chat must render it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from jinja2 import Template
from tokenizers import Tokenizer

from ledger.digest import parse_json
from ledger.errors import BadInput
from recipes.chat_template import compiled, reason
from recipes.hf_config import PLACEHOLDERS

FILES = ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja")

Messages = Sequence[Mapping[str, Any]]


class Encoder:
    """The tokenizer and the chat template of one checkpoint; `placeholders` are ids that mean nothing in text."""

    def __init__(
        self, tokenizer: Tokenizer, template: Template, tokens: Mapping[str, str], *, placeholders: frozenset[int]
    ) -> None:
        """`tokens` are the template's variables, bos_token and its kin; `load` reads all of it from files.

        Raises BadInput when the tokenizer does not know bos_token.
        """
        bos = tokenizer.token_to_id(tokens.get("bos_token", ""))
        if bos is None:
            raise BadInput(
                f"tokenizer_config.json: bos_token is {tokens.get('bos_token')!r}; accepted: a token of tokenizer.json"
            )
        self.bos: int = bos
        self.placeholders = placeholders
        self.vocab_size: int = tokenizer.get_vocab_size()
        self._tokenizer = tokenizer
        self._tokens = dict(tokens)
        self._template = template

    @classmethod
    def load(cls, files: Mapping[str, Path]) -> Encoder:
        """From the paths of FILES and, for the placeholders, of config.json where there is one.

        Raises BadInput when a file is missing or unreadable, or does not say what BOS is.
        """
        for name in FILES:
            if name not in files:
                raise BadInput(f"{name} is missing from the checkpoint; accepted: a folder with {', '.join(FILES)}")
        settings = _read_json(files["tokenizer_config.json"])
        tokens = {key: text for key, value in settings.items() if key.endswith("_token") and (text := _text(value))}
        config = _read_json(files["config.json"]) if "config.json" in files else {}
        placeholders = frozenset(config[key] for key in PLACEHOLDERS if type(config.get(key)) is int)
        try:
            tokenizer = Tokenizer.from_buffer(_read(files["tokenizer.json"]))
        except ValueError as error:
            raise BadInput(f"{files['tokenizer.json']} is no tokenizer: {error}") from None
        path = files["chat_template.jinja"]
        return cls(tokenizer, compiled(_read(path), str(path)), tokens, placeholders=placeholders)

    @classmethod
    def from_folder(cls, folder: Path) -> Encoder:
        """From a checkpoint folder; BadInput as for `load`, and when there is no such folder."""
        if not folder.is_dir():
            raise BadInput(f"{folder} is no folder; accepted: a checkpoint in official layout")
        return cls.load({path.name: path for path in folder.iterdir()})

    def pieces(self, text: str) -> list[int]:
        """Ids of `text` without BOS."""
        ids: list[int] = self._tokenizer.encode(text, add_special_tokens=False).ids
        return ids

    def text(self, text: str) -> list[int]:
        """Ids of a raw prompt: BOS, unless the text begins with it, then the text."""
        ids = self.pieces(text)
        return ids if ids[:1] == [self.bos] else [self.bos, *ids]

    def chat(self, messages: Messages) -> list[int]:
        """Ids of a conversation that the model is to continue.

        BadInput when the template refuses the messages or does not begin with BOS.
        """
        try:
            rendered = self._template.render(
                **self._tokens, messages=messages, tools=None, documents=None, add_generation_prompt=True
            )
        except Exception as error:  # nothing narrower: the template's expressions are a program
            raise BadInput(f"chat_template.jinja refuses the messages: {reason(error)}") from None
        ids = self.pieces(rendered)
        if ids[:1] != [self.bos]:
            raise BadInput(f"chat_template.jinja begins with id {ids[:1]}; accepted: BOS, {self.bos}")
        return ids


def _text(value: Any) -> str | None:
    """A special token is text or, in older files, a mapping with `content`."""
    found = value.get("content") if isinstance(value, dict) else value
    return found if isinstance(found, str) else None


def _read_json(path: Path) -> dict[str, Any]:
    found = parse_json(_read(path), str(path))
    if not isinstance(found, dict):
        raise BadInput(f"{path} holds a {type(found).__name__}; accepted: an object")
    return found


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise BadInput(f"{path} cannot be read: {error.strerror}; accepted: a file of the checkpoint") from None

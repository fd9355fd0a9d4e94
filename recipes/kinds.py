"""The kinds of model that are built, and the library's classes of each: no other file here names a class.

Departs from the library's Auto classes in two ways. What is not in the table is refused by name, where they would
build an assistant or a Gemma 3 as readily; and nothing is imported before a class is asked for, as transformers
takes seconds.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from ledger.errors import BadInput


@dataclass(frozen=True)
class Kind:
    """One model_type of config.json; the library's classes of a kind begin with the same word."""

    model_type: str
    word: str

    @property
    def text_type(self) -> str:
        """The model_type of text_config."""
        return f"{self.model_type}_text"

    def config(self) -> Any:
        """The class of a whole config.json."""
        return self._class("configuration", "Config")

    def text_config(self) -> Any:
        """The class of a text_config."""
        return self._class("configuration", "TextConfig")

    def text_model(self) -> Any:
        """The text model without a head, which the step graph runs."""
        return self._class("modeling", "TextModel")

    def rotary(self) -> Any:
        """The text model's rotary embedding."""
        return self._class("modeling", "TextRotaryEmbedding")

    def full_model(self) -> Any:
        """The model that a checkpoint holds, towers included."""
        return self._class("modeling", "ForConditionalGeneration")

    def _class(self, file: str, what: str) -> Any:
        module = import_module(f"transformers.models.{self.model_type}.{file}_{self.model_type}")
        return getattr(module, self.word + what)


# E2B, E4B, 26B-A4B and 31B are of the first kind, 12B is of the second.
KINDS = {kind.model_type: kind for kind in (Kind("gemma4", "Gemma4"), Kind("gemma4_unified", "Gemma4Unified"))}


def kind_of(config: Mapping[str, Any], where: str) -> Kind:
    """The kind of a whole config.json, read from `where`; BadInput for any other model, or parts of two kinds."""
    found, text = config.get("model_type"), config.get("text_config")
    kind = KINDS.get(found) if isinstance(found, str) else None
    if kind is None or not isinstance(text, Mapping):
        raise BadInput(f"{where}: model_type is {found!r}; accepted: {_or(list(KINDS))} with a text_config")
    if (own := text.get("model_type")) != kind.text_type:
        raise BadInput(f"{where}: text_config.model_type is {own!r}; accepted: {kind.text_type!r}, as in {found}")
    return kind


def kind_of_text(text_config: Mapping[str, Any]) -> Kind:
    """The kind of a text_config; BadInput for any other text model."""
    found = text_config.get("model_type")
    kind = next((kind for kind in KINDS.values() if kind.text_type == found), None)
    if kind is None:
        accepted = _or([kind.text_type for kind in KINDS.values()])
        raise BadInput(f"text_config.model_type is {found!r}; accepted: {accepted}")
    return kind


def _or(names: list[str]) -> str:
    return " or ".join(map(repr, names))

"""Answers in Gemma 4's format, written as the official template writes them: what the parsers must take apart."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from tests.serve.text.cases import words

_STRUCTURE = ":,{}[]\"'<|>"


def bare_keys() -> SearchStrategy[str]:
    """Keys that need no quotes."""
    return words(8).filter(lambda key: key != "" and key == key.strip() and not any(c in key for c in _STRUCTURE))


def objects(keys: SearchStrategy[str] | None = None) -> SearchStrategy[dict[str, Any]]:
    """Arguments of a call, nested."""
    keys = bare_keys() if keys is None else keys
    floats = st.floats(allow_nan=False, allow_infinity=False)
    scalars = st.one_of(st.none(), st.booleans(), st.integers(), floats, words(12))
    values = st.recursive(
        scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=3), max_leaves=6
    )
    return st.dictionaries(keys, values, max_size=4)


def written(value: Any) -> str:
    """A value as an argument."""
    if isinstance(value, str):
        return f'<|"|>{value}<|"|>'
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, Mapping):
        return "{" + ",".join(f"{key}:{written(inner)}" for key, inner in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(written, value)) + "]"
    return "null" if value is None else repr(value)


def called(name: str, arguments: Mapping[str, Any]) -> str:
    """A call between its markers."""
    return f"<|tool_call>call:{name}{written(arguments)}<tool_call|>"


def thought(text: str) -> str:
    """A thinking channel."""
    return f"<|channel>thought\n{text}\n<channel|>"

"""How many cases a property is tried on, and what the cases are made of."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

SPECIAL = ("<|", "|>", "<bos>", "<eos>", "<pad>", "<unk>", "<mask>")


def examples(few: int, many: int) -> pytest.MarkDecorator:
    """`few` in every run, `many` in `make soak`: 10,000 there for the cutting of text at stops alone."""
    return pytest.mark.parametrize("count", [few, pytest.param(many, marks=pytest.mark.soak)])


def words(max_size: int = 30) -> SearchStrategy[str]:
    """Text in any script, with the characters that make the tokenizer and the markers difficult more often.

    U+2581 comes back from Gemma's tokenizer as a space, so it is left out, and so are the names of special tokens.
    """
    any_character = st.characters(exclude_categories=["Cs"], exclude_characters="\u2581")
    character = st.one_of(st.sampled_from("ab \n<|>:{}\"'é你👍\u200d\ufffd"), any_character)
    return st.text(character, max_size=max_size).filter(lambda text: not any(part in text for part in SPECIAL))


@st.composite
def split(draw: st.DrawFn, text: str) -> list[str]:
    """`text` in pieces, none empty."""
    cuts = sorted(draw(st.sets(st.integers(1, max(1, len(text) - 1)), max_size=6)))
    edges = [0, *[cut for cut in cuts if cut < len(text)], len(text)]
    return [text[start:end] for start, end in pairwise(edges) if start < end]

"""From docstrings to rows of token ids: documents and chat turns, packed end to end.

Departs from plain packing in what a document looks like: seven in ten are `name`, an empty line and the
docstring, closed by <eos>; the others are a chat in which the model answers with the docstring's first
paragraph and closes its turn. They are rendered by the checkpoint's own chat template, so generation from a
template prompt meets what was trained.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path

import jinja2
import torch
from tokenizers import Tokenizer

from recipes.tiny.corpus import Doc

DATA_FILES: tuple[str, ...] = ("chat_template.jinja",)
TEMPLATE = Path(__file__).with_name("chat_template.jinja")
QUESTIONS = ("What is {name}?", "What does {name} do?", "Explain {name}.")
CHAT_SHARE = 0.3


def plain(doc: Doc) -> str:
    """The docstring as a document."""
    return f"<bos>{doc.name}\n\n{doc.text}<eos>"


def chat(doc: Doc, question: str) -> str:
    """The docstring's first paragraph as the answer to a question."""
    turns = [
        {"role": "user", "content": question.format(name=doc.name)},
        {"role": "assistant", "content": doc.summary},
    ]
    return _template().render(messages=turns, bos_token="<bos>")


def training_rows(docs: Sequence[Doc], tokenizer: Tokenizer, *, rows: int, length: int, seed: int) -> torch.Tensor:
    """`rows` rows of length + 1 ids, int64; each repeats the last id of the one before as its first.

    Every pass over `docs` has its own order and its own choice of form.
    """
    needed = rows * length + 1
    ids: list[int] = []
    for text in _texts(docs, random.Random(seed)):
        ids += tokenizer.encode(text, add_special_tokens=False).ids
        if len(ids) >= needed:
            break
    return _windows(ids[:needed], length)


def heldout_rows(docs: Sequence[Doc], tokenizer: Tokenizer, *, length: int) -> torch.Tensor:
    """All of `docs` as plain documents in rows of length + 1 ids, int64; an incomplete last row is dropped."""
    encodings = tokenizer.encode_batch([plain(doc) for doc in docs], add_special_tokens=False)
    return _windows([id_ for encoding in encodings for id_ in encoding.ids], length)


def _texts(docs: Sequence[Doc], rng: random.Random) -> Iterator[str]:
    while True:
        for doc in rng.sample(docs, len(docs)):
            yield chat(doc, rng.choice(QUESTIONS)) if rng.random() < CHAT_SHARE else plain(doc)


def _windows(ids: Sequence[int], length: int) -> torch.Tensor:
    return torch.tensor(ids, dtype=torch.int64).unfold(0, length + 1, length)


@cache
def _template() -> jinja2.Template:
    return jinja2.Environment(trim_blocks=True, lstrip_blocks=True).from_string(TEMPLATE.read_text(encoding="utf-8"))

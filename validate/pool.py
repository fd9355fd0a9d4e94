"""The self-written texts of validate/data as token ids, dealt out in an order that a seed decides.

Every kind comes up in turn, so that a short deal still holds chat, code, scripts, emoji and special tokens, and every
turn ends with a mixture cut to a length drawn by chance, as written texts are short.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from itertools import chain, count, cycle, islice, zip_longest
from pathlib import Path
from typing import Any, NamedTuple

from validate.encode import Encoder

DATA_FILES: tuple[str, ...] = ("data/*.jsonl",)
_DATA = Path(__file__).parent / "data"
_TEXTS = ("code", "script", "emoji", "special", "prose")


class Item(NamedTuple):
    """One prompt's content: `ids` begin with BOS."""

    kind: str
    name: str
    ids: list[int]


class Pool:
    """Texts and chats of one tokenizer; items hold at most `room` ids and none of `forbidden`."""

    def __init__(self, encoder: Encoder, *, room: int, forbidden: frozenset[int], chooser: random.Random) -> None:
        """Encode everything; a chat longer than `room` is left out, as a cut turn is no chat, and a text is cut."""
        self._bos, self._room, self._chooser = encoder.bos, room, chooser
        pieces = {kind: _encoded(kind, encoder, forbidden) for kind in _TEXTS}
        self._filler = [ids for texts in pieces.values() for ids in texts.values()]
        self._texts = [
            [Item(kind, f"{kind}-{name}", [encoder.bos, *ids][:room]) for name, ids in texts.items()]
            for kind, texts in pieces.items()
        ]
        chats = [(row["name"], encoder.chat(row["messages"])) for row in _rows("chat")]
        fitting = [(name, ids) for name, ids in chats if len(ids) <= room]
        self._open = [Item("chat", f"chat-{name}", ids) for name, ids in fitting[::2]]
        self.stopping = [Item("stop", f"stop-{name}", ids) for name, ids in fitting[1::2]]

    def filled(self, length: int) -> list[int]:
        """BOS and texts in an order drawn by chance, cut to `length` ids."""
        order = self._chooser.sample(self._filler, len(self._filler))
        return [self._bos, *islice(chain.from_iterable(cycle(order)), length - 1)]

    def deal(self) -> Iterator[Item]:
        """Items without end: each written one once, mixtures in between and ever after."""
        kinds = [self._chooser.sample(items, len(items)) for items in (self._open, *self._texts)]
        turns = chain(zip_longest(*kinds), cycle([()]))
        for number, turn in zip(count(1), turns, strict=False):
            yield from (item for item in turn if item is not None)
            yield Item("mix", f"mix-{number}", self.filled(self._chooser.randint(1, self._room)))


def _encoded(kind: str, encoder: Encoder, forbidden: frozenset[int]) -> dict[str, list[int]]:
    ids = {row["name"]: encoder.pieces(row["text"]) for row in _rows(kind)}
    return {name: found for name, found in ids.items() if forbidden.isdisjoint(found)}


def _rows(kind: str) -> list[dict[str, Any]]:
    # Not splitlines: U+2028 and its kin are content here.
    lines = (_DATA / f"{kind}.jsonl").read_text(encoding="utf-8").split("\n")
    return [json.loads(line) for line in lines if line]

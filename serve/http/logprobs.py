"""Log-probabilities as OpenAI's two answers show them.

JSON has no infinity: as in OpenAI's API, -9999 stands for a token that cannot come. A token that is no whole character
is shown as `bytes:\\x..`, and its bytes beside it in chats.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from serve.request import Ranking, Score, Token
from serve.text.tokenizer import Text

LEAST = -9999.0


class Logprobs:
    """Names tokens by the text they stand for."""

    def __init__(self, text: Text) -> None:
        self._pieces = text.pieces

    def width(self, id_: int) -> int:
        """How many characters a token adds to a text, which leaves special tokens out."""
        return 0 if id_ in self._pieces.special else len(self._pieces.utf8(id_).decode(errors="ignore"))

    def chat(self, tokens: Sequence[Token]) -> list[dict[str, Any]]:
        """Entries of `choices[].logprobs.content`."""
        return [
            self._entry(token.id, token.logprob)
            | {"top_logprobs": [self._entry(id_, logprob) for id_, logprob in token.top]}
            for token in tokens
        ]

    def name(self, id_: int) -> str:
        """The text of a token, or its bytes."""
        raw = self._pieces.utf8(id_)
        try:
            return raw.decode()
        except UnicodeDecodeError:
            return "bytes:" + "".join(f"\\x{byte:02x}" for byte in raw)

    def _entry(self, id_: int, logprob: float | None) -> dict[str, Any]:
        return {"token": self.name(id_), "logprob": _finite(logprob), "bytes": list(self._pieces.utf8(id_))}


class CompletionTable:
    """`choices[].logprobs` of a completion, column by column; offsets count characters from the start of the text."""

    def __init__(self, names: Logprobs, count: int) -> None:
        """`count` likeliest tokens are shown beside each."""
        self._names, self._count, self._offset = names, count, 0

    def prompt(self, ids: Sequence[int], scores: Sequence[Score]) -> dict[str, Any]:
        """Rows of an echoed prompt, of which score i speaks of the token after ids[i]."""
        table = self._empty()
        for place, id_ in enumerate(ids):
            # An answer that was cut before its prompt was through has fewer scores.
            before = scores[place - 1] if 0 < place <= len(scores) else None
            self._row(table, id_, before.logprob if before else None, before.top if before else None)
        return table

    def answer(self, tokens: Sequence[Token]) -> dict[str, Any]:
        """Rows of generated tokens."""
        table = self._empty()
        for token in tokens:
            self._row(table, token.id, token.logprob, token.top)
        return table

    def _empty(self) -> dict[str, Any]:
        tops: list[Any] | None = [] if self._count else None
        return {"tokens": [], "token_logprobs": [], "top_logprobs": tops, "text_offset": []}

    def _row(self, table: dict[str, Any], id_: int, logprob: float | None, ranking: Ranking | None) -> None:
        name = self._names.name(id_)
        table["tokens"].append(name)
        table["token_logprobs"].append(None if logprob is None else _finite(logprob))
        table["text_offset"].append(self._offset)
        self._offset += self._names.width(id_)
        if table["top_logprobs"] is not None:
            table["top_logprobs"].append(None if ranking is None else self._likeliest(id_, logprob, ranking))

    def _likeliest(self, id_: int, logprob: float | None, ranking: Ranking) -> dict[str, float]:
        """By name; of two tokens with one name the likelier counts, and the token itself is always there."""
        found: dict[str, float] = {}
        for other, value in (*ranking, (id_, logprob)):
            found.setdefault(self._names.name(other), _finite(value))
        return found


def _finite(logprob: float | None) -> float:
    return LEAST if logprob is None or not math.isfinite(logprob) or logprob < LEAST else logprob

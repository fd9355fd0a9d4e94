"""What each token id adds to a text, for tokenizers that decode as Gemma's does.

Gemma's decoder turns U+2581 into a space, runs of `<0xNN>` tokens into the characters whose UTF-8 they spell, and
joins. Nothing depends on what comes before, but for those runs, and no leading space is dropped, so that a stream
can be decoded token by token. A tokenizer with another decoder is refused.
"""

from __future__ import annotations

import json
from typing import Any

from tokenizers import Tokenizer

from serve.errors import ServeError

_SPACE = "\u2581"
_DECODER: dict[str, Any] = {
    "type": "Sequence",
    "decoders": [
        {"type": "Replace", "pattern": {"String": _SPACE}, "content": " "},
        {"type": "ByteFallback"},
        {"type": "Fuse"},
    ],
}
_DIGITS = "0123456789ABCDEFabcdef"


class Pieces:
    """The text, or the byte, of every id of a vocabulary."""

    def __init__(self, tokenizer: Tokenizer, origin: str) -> None:
        """ServeError that names `origin` when `tokenizer` decodes by other rules than the module says."""
        found = None if tokenizer.decoder is None else json.loads(tokenizer.decoder.__getstate__())
        if found != _DECODER:
            raise ServeError(
                f"{origin}: decoder is {json.dumps(found)}; Replace of U+2581, ByteFallback and Fuse are accepted"
            )
        self._token = tokenizer.id_to_token
        added = tokenizer.get_added_tokens_decoder()
        self.special: dict[int, str] = {id_: token.content for id_, token in added.items() if token.special}
        spelled = {
            tokenizer.token_to_id(f"<0x{high}{low}>"): int(high + low, 16) for high in _DIGITS for low in _DIGITS
        }
        self._bytes: dict[int, int] = {id_: byte for id_, byte in spelled.items() if id_ is not None}

    def byte(self, id_: int) -> int | None:
        """The byte that a byte-fallback token stands for; None for any other token."""
        return self._bytes.get(id_)

    def text(self, id_: int) -> str | None:
        """The text of a token that is no byte token; None for an id outside the vocabulary, which adds nothing."""
        token: str | None = self._token(id_)
        return None if token is None else token.replace(_SPACE, " ")

    def utf8(self, id_: int) -> bytes:
        """The bytes a token adds to the text, which need not be whole characters."""
        byte = self._bytes.get(id_)
        return (self.text(id_) or "").encode() if byte is None else bytes((byte,))

"""Incremental detokenisation: the text of a growing list of ids, each character once it is final.

Departs from decoding the whole list again and comparing (quadratic), and from decoding a short window (which guesses
where a character ends): byte tokens are kept until a token of another kind ends their run, and the run is decoded
once. It has to be the whole run: `tokenizers` writes one U+FFFD for every byte of a run that is not UTF-8
throughout, so what the first characters of a run become is open until its end. With Gemma's vocabulary a run is the
few bytes of one rare character.
"""

from __future__ import annotations

from serve.text.pieces import Pieces


class Decoder:
    """The pushes and `finish` together give exactly `Tokenizer.decode` of all ids."""

    def __init__(self, pieces: Pieces, *, skip_special: bool = True) -> None:
        """`skip_special` leaves special tokens out, as `skip_special_tokens` does."""
        self._pieces = pieces
        self._skipped = pieces.special if skip_special else {}
        self._run = bytearray()

    def push(self, id_: int) -> str:
        """The text that is final now; O(1) amortised."""
        if id_ in self._skipped:
            return ""
        byte = self._pieces.byte(id_)
        if byte is not None:
            self._run.append(byte)
            return ""
        text = self._pieces.text(id_)
        if text is None:
            return ""
        return self.finish() + text if self._run else text

    def finish(self) -> str:
        """The text of bytes that still wait; the decoder is then as new."""
        run = bytes(self._run)
        self._run.clear()
        try:
            return run.decode()
        except UnicodeDecodeError:
            return "\ufffd" * len(run)

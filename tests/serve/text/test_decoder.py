"""The decoder against `Tokenizer.decode` of the whole list, which it never calls."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer

from serve.errors import ServeError
from serve.text.decoder import Decoder
from serve.text.pieces import Pieces
from tests.serve.text.cases import examples, words

FIRST_BYTE = 108
SIZE = 700


def spelled(text: str) -> list[int]:
    """The byte tokens of a text."""
    return [FIRST_BYTE + byte for byte in text.encode()]


@pytest.mark.parametrize("skip", [True, False])
@examples(300, 2000)
def test_pushes_add_up_to_the_whole_and_are_never_taken_back(
    tokenizer: Tokenizer, pieces: Pieces, count: int, skip: bool
) -> None:
    bytes_ = st.lists(st.integers(FIRST_BYTE, FIRST_BYTE + 255), max_size=5)
    encoded = words(12).map(lambda text: list(tokenizer.encode(text, add_special_tokens=False).ids))
    characters = words(3).map(spelled)
    anything = st.lists(st.integers(0, SIZE + 5), max_size=5)
    special = st.sampled_from(sorted(pieces.special)).map(lambda id_: [id_])

    @settings(max_examples=count)
    @given(st.lists(st.one_of(bytes_, encoded, characters, anything, special), max_size=8))
    def law(parts: list[list[int]]) -> None:
        ids = [id_ for part in parts for id_ in part]
        decoder = Decoder(pieces, skip_special=skip)
        out = ""
        for place, id_ in enumerate(ids):
            out += decoder.push(id_)
            is_byte = FIRST_BYTE <= id_ < FIRST_BYTE + 256
            if not is_byte and id_ < SIZE and not (skip and id_ in pieces.special):
                assert out == tokenizer.decode(ids[: place + 1], skip_special_tokens=skip)
        assert out + decoder.finish() == tokenizer.decode(ids, skip_special_tokens=skip)
        assert decoder.finish() == ""

    law()


@examples(200, 1000)
def test_a_text_comes_back_without_replacement_characters_of_ours(
    tokenizer: Tokenizer, pieces: Pieces, count: int
) -> None:
    @settings(max_examples=count)
    @given(words())
    def law(text: str) -> None:
        decoder = Decoder(pieces)
        pushes = [decoder.push(id_) for id_ in tokenizer.encode(text, add_special_tokens=False).ids]
        assert "".join([*pushes, decoder.finish()]) == text
        assert "".join(pushes).count("\ufffd") <= text.count("\ufffd")

    law()


def test_a_split_character_waits_for_its_last_byte(pieces: Pieces) -> None:
    decoder = Decoder(pieces)
    assert [decoder.push(id_) for id_ in spelled("你")] == ["", "", ""]
    assert decoder.push(107) == "你\n"


def test_a_special_token_between_two_bytes_counts_only_where_it_is_kept(pieces: Pieces) -> None:
    first, second, third = spelled("你")
    ids = [first, 0, second, third, 107]
    skipping, keeping = Decoder(pieces), Decoder(pieces, skip_special=False)
    assert "".join(map(skipping.push, ids)) == "你\n"
    assert "".join(map(keeping.push, ids)) == "\ufffd<pad>\ufffd\ufffd\n"


def test_what_a_token_adds_is_known_byte_by_byte(tokenizer: Tokenizer, pieces: Pieces) -> None:
    ids = tokenizer.encode("The weather 你 in Paris", add_special_tokens=False).ids
    assert b"".join(map(pieces.utf8, ids)).decode() == "The weather 你 in Paris"
    assert (pieces.utf8(FIRST_BYTE + 0xE4), pieces.utf8(2), pieces.utf8(SIZE)) == (b"\xe4", b"<bos>", b"")


def test_a_tokenizer_that_decodes_otherwise_is_refused(folder: Path) -> None:
    saved = json.loads((folder / "tokenizer.json").read_text())
    saved["decoder"]["decoders"].append({"type": "Strip", "content": " ", "start": 1, "stop": 0})
    with pytest.raises(ServeError, match=r"^x\.json: decoder is .*Strip.*; Replace of U\+2581, .* are accepted$"):
        Pieces(Tokenizer.from_str(json.dumps(saved)), "x.json")
    del saved["decoder"]
    with pytest.raises(ServeError, match=r"^x\.json: decoder is null; "):
        Pieces(Tokenizer.from_str(json.dumps(saved)), "x.json")

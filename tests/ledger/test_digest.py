"""Digests against coreutils' sha256sum and against what JSON itself says is equal."""

import json
import random
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledger.digest import canonical_json, digest_json, parse_json, sha256_bytes, sha256_file
from ledger.errors import BadInput

# Every text, lone surrogates too: a tokenizer's byte pieces may hold them.
TEXT = st.text(st.characters(exclude_categories=()))
SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXT
VALUES = st.recursive(SCALARS, lambda inner: st.lists(inner) | st.dictionaries(TEXT, inner), max_leaves=20)

# What can be written in UTF-8.
GOOD = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)

HELLO = "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824"


def shuffled(value: Any, seed: int) -> Any:
    """The same value with the keys of every dictionary in another order."""
    if isinstance(value, dict):
        pairs = [(key, shuffled(inner, seed)) for key, inner in value.items()]
        random.Random(seed).shuffle(pairs)
        return dict(pairs)
    return [shuffled(inner, seed) for inner in value] if isinstance(value, list) else value


def test_known_digests(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("hello")
    assert sha256_file(tmp_path / "file") == sha256_bytes(b"hello") == HELLO
    # printf '{"a":1,"b":[true,null,"\\u00e9"]}' | sha256sum
    expected = "b71874349daac02154f7f15128affc99836ec0d2d885791b4b63bd20b9b214d8"
    assert digest_json({"b": (True, None, "é"), "a": 1}) == expected


@given(VALUES, st.integers(0, 9))
def test_key_order_does_not_matter(value: Any, seed: int) -> None:
    assert canonical_json(shuffled(value, seed)) == canonical_json(value)


@given(VALUES)
def test_nothing_is_lost_and_a_value_read_back_has_the_same_digest(value: Any) -> None:
    assert json.loads(canonical_json(value)) == value
    assert digest_json(json.loads(json.dumps(value, indent=3))) == digest_json(value)


@given(VALUES)
def test_the_spelling_is_compact_ascii(value: Any) -> None:
    text = canonical_json(value).decode("ascii")
    assert len(text) <= len(json.dumps(value))
    assert "\n" not in text


@given(st.lists(TEXT, unique=True, min_size=2))
def test_keys_come_in_the_order_of_their_code_points(keys: list[str]) -> None:
    found = json.loads(canonical_json(dict.fromkeys(keys)), object_pairs_hook=lambda pairs: [k for k, _ in pairs])
    assert found == sorted(keys, key=lambda key: [ord(letter) for letter in key])


@given(VALUES, VALUES)
def test_other_values_have_other_spellings(one: Any, other: Any) -> None:
    # repr tells 1 from 1.0 and True, as JSON does; sorting makes it blind to key order.
    same = repr(shuffled(sorted_keys(one), 0)) == repr(shuffled(sorted_keys(other), 0))
    assert (canonical_json(one) == canonical_json(other)) == same


def sorted_keys(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: sorted_keys(value[key]) for key in sorted(value)}
    return [sorted_keys(inner) for inner in value] if isinstance(value, list) else value


@pytest.mark.parametrize("value", [float("nan"), float("inf"), {"a": [float("-inf")]}])
def test_numbers_that_json_has_not_are_refused(value: Any) -> None:
    with pytest.raises(ValueError, match="JSON"):
        canonical_json(value)


@pytest.mark.parametrize("value", [{9: 1, 10: 2}, [{"a": {True: 1}}], ({None: 1},)])
def test_keys_that_are_not_text_are_refused(value: Any) -> None:
    with pytest.raises(TypeError, match="accepted: str"):
        canonical_json(value)


@pytest.mark.parametrize("value", [{1, 2}, b"bytes", Path("x")])
def test_what_json_cannot_hold_is_refused(value: Any) -> None:
    with pytest.raises(TypeError):
        canonical_json(value)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b'{"a": 1',
        b'{"a": 1} x',
        b'{"a": 1, "a": 2}',
        b'{"b": {"a": 1, "a": 1}}',
        b"[NaN]",
        b"[-Infinity]",
        b"[1e999]",
        b'{"a": -1e400}',
        b'["\\ud800"]',
        b'{"\\uDFFF": 1}',
        b'["\\udc00\\ud800"]',
        b'["\xed\xa0\x80"]',
        b"\xff\xfe\x00",
        b'"\xe9"',
        b"[" * 100_000,
    ],
)
def test_damage_is_one_sentence_that_names_the_file(data: bytes) -> None:
    with pytest.raises(BadInput) as caught:
        parse_json(data, "receipts/fetch.json")
    assert str(caught.value).startswith("receipts/fetch.json is not readable as JSON: ")
    assert "\n" not in str(caught.value)


@given(st.recursive(SCALARS, lambda inner: st.lists(inner) | st.dictionaries(TEXT, inner), max_leaves=20))
def test_halves_of_pairs_are_refused_and_nothing_else(value: Any) -> None:
    data = json.dumps(value).encode()
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        with pytest.raises(BadInput, match="is half of a surrogate pair, and no character; accepted"):
            parse_json(data, "x")
    else:
        assert parse_json(data, "x") == json.loads(data)


@given(GOOD)
def test_good_json_is_parsed(value: Any) -> None:
    assert parse_json(json.dumps(value, indent=1).encode(), "x") == value

"""The wire format against vectors of its specification, and against damage."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recipes.wire import fields, message, number, read_varint, varint

Field = tuple[int, int | bytes]


def test_vectors_of_the_specification() -> None:
    # protobuf.dev/programming-guides/encoding: 150 in field 1; "testing" in field 2; a submessage in field 3.
    assert varint(150) == bytes.fromhex("9601")
    assert number(1, 150) == bytes.fromhex("089601")
    assert message(2, b"testing") == bytes.fromhex("120774657374696e67")
    assert message(3, number(1, 150)) == bytes.fromhex("1a03089601")


@given(st.integers(0, 2**64 - 1), st.binary(max_size=3))
def test_a_varint_is_base_128_with_the_low_part_first(value: int, rest: bytes) -> None:
    encoded = varint(value)
    assert sum((byte & 127) * 128**place for place, byte in enumerate(encoded)) == value
    assert [byte >> 7 for byte in encoded] == [1] * (len(encoded) - 1) + [0]
    assert read_varint(rest + encoded + rest, len(rest)) == (value, len(rest) + len(encoded))


@given(
    st.lists(
        st.tuples(
            st.integers(1, 2**29 - 1),
            st.one_of(st.integers(0, 2**64 - 1), st.binary(max_size=300), st.sampled_from(["fixed32", "fixed64"])),
        ),
        max_size=6,
    )
)
def test_fields_come_back_in_order_and_whole(content: list[tuple[int, int | bytes | str]]) -> None:
    encoded = []
    for field, value in content:
        match value:
            case int():
                encoded.append(number(field, value))
            case bytes():
                encoded.append(message(field, value))
            case _:
                width = int(value[-2:]) // 8
                encoded.append(varint(field << 3 | (5 if width == 4 else 1)) + bytes(width))
    found = list(fields(b"".join(encoded)))
    assert [(field, payload) for field, payload, _ in found] == [
        (field, value if isinstance(value, bytes) else b"") for field, value in content
    ]
    assert [whole for _, _, whole in found] == encoded


@pytest.mark.parametrize(
    ("damaged", "words"),
    [
        (b"\x96", "varint at byte 0 does not end"),
        (b"\x08\x96", "varint at byte 1 does not end"),
        (b"\x12\x07test", "field at byte 0 does not end"),
        (b"\x08\x01\x0d\x00\x00", "field at byte 2 does not end"),
        (b"\x09" + bytes(7), "field at byte 0 does not end"),
        (b"\x0b", "wire type 3 at byte 0"),
        (b"\x0f", "wire type 7 at byte 0"),
    ],
)
def test_damage_is_named_with_its_place(damaged: bytes, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        list(fields(damaged))

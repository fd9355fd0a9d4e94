"""The reader against bytes that the other half of the wire format writes, and against noise."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recipes.lint.proto import DamagedError, Message
from recipes.wire import message, number, varint

INT64 = st.integers(-(2**63), 2**63 - 1)


def unsigned(value: int) -> int:
    """A negative int64 is written as its two's complement."""
    return value % 2**64


@given(st.lists(INT64, max_size=5), st.lists(INT64, max_size=5))
def test_numbers_come_back_packed_and_not(single: list[int], packed: list[int]) -> None:
    data = b"".join(number(7, unsigned(value)) for value in single)
    data += message(7, b"".join(varint(unsigned(value)) for value in packed))
    assert Message(memoryview(data)).numbers(7) == single + packed


@given(INT64, st.text(max_size=9), st.binary(max_size=9))
def test_the_last_number_and_text_count_and_the_absent_are_empty(value: int, text: str, data: bytes) -> None:
    encoded = number(1, 5) + number(1, unsigned(value)) + message(2, b"first") + message(2, text.encode())
    found = Message(memoryview(encoded + message(300, data)))
    assert (found.number(1), found.text(2), [bytes(one) for one in found.payloads(300)]) == (value, text, [data])
    assert (found.number(9, 4), found.text(9), found.numbers(9), found.messages(9)) == (4, "", [], [])
    assert 9 not in found
    assert 300 in found


def test_a_message_given_twice_is_merged() -> None:
    data = message(3, number(1, 1)) + message(3, number(2, 2))
    merged = Message(memoryview(data)).message(3)
    assert (merged.number(1), merged.number(2)) == (1, 2)
    assert len(Message(memoryview(data)).messages(3)) == 2


def test_floats_of_fixed_width_are_payloads() -> None:
    data = bytes([8 << 3 | 5, 1, 2, 3, 4, 9 << 3 | 1, *range(8)])
    found = Message(memoryview(data))
    assert [bytes(one) for field in (8, 9) for one in found.payloads(field)] == [bytes([1, 2, 3, 4]), bytes(range(8))]


@pytest.mark.parametrize(
    ("damaged", "words"),
    [
        (b"\x96", "a number that does not end"),
        (b"\x08" + b"\xff" * 11, "a number that does not end"),
        (b"\x12\x07test", "a field that does not end"),
        (b"\x0d\x00\x00", "a field that does not end"),
        (b"\x0b", "a field of wire type 3"),
        (b"\x02\x00", "a field without a number"),
    ],
)
def test_damage_is_named(damaged: bytes, words: str) -> None:
    with pytest.raises(DamagedError, match=words):
        Message(memoryview(damaged))


def test_another_wire_type_is_named() -> None:
    found = Message(memoryview(number(1, 2) + message(2, b"\xff")))
    with pytest.raises(DamagedError, match="a number in field 1"):
        found.payloads(1)
    with pytest.raises(DamagedError, match="bytes in field 2"):
        found.number(2)
    with pytest.raises(DamagedError, match="text in field 2 that is not UTF-8"):
        found.text(2)

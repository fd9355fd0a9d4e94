"""Protocol buffer wire format: messages as lists of fields, without a schema (protobuf.dev, encoding).

The stand-ins share no code with the lint that they are used to test, so this is a reader of their own.
"""

from __future__ import annotations

from collections.abc import Iterable

Field = tuple[int, int, int | bytes]
_FIXED = {1: 8, 5: 4}


def varint(value: int) -> bytes:
    """`value` in base 128."""
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*encoded, value])


def read_varint(data: bytes, position: int) -> tuple[int, int]:
    """The varint at `position`, and where it ends; ValueError when it does not."""
    value = shift = 0
    while position < len(data) and shift < 70:
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
        shift += 7
    raise ValueError("a varint does not end")


def decode(data: bytes) -> list[Field]:
    """The fields of a message as (number, wire type, value); ValueError for bytes that are none."""
    fields: list[Field] = []
    position = 0
    while position < len(data):
        tag, position = read_varint(data, position)
        number, kind = tag >> 3, tag & 7
        if kind == 0:
            value, position = read_varint(data, position)
            fields.append((number, kind, value))
            continue
        if kind == 2:
            size, position = read_varint(data, position)
        elif kind in _FIXED:
            size = _FIXED[kind]
        else:
            raise ValueError(f"wire type {kind}")
        if position + size > len(data):
            raise ValueError("a field does not end")
        fields.append((number, kind, data[position : position + size]))
        position += size
    return fields


def encode(fields: Iterable[Field]) -> bytes:
    """The message with these fields."""
    parts: list[bytes] = []
    for number, kind, value in fields:
        parts.append(varint(number << 3 | kind))
        if isinstance(value, int):
            parts.append(varint(value))
        else:
            parts.extend([varint(len(value)), value] if kind == 2 else [value])
    return b"".join(parts)


def blobs(fields: Iterable[Field], number: int) -> list[bytes]:
    """The values of a repeated string, bytes or message field."""
    return [value for found, _, value in fields if found == number and isinstance(value, bytes)]


def blob(fields: Iterable[Field], number: int) -> bytes:
    """A string, bytes or message field; empty when absent."""
    found = blobs(fields, number)
    return found[-1] if found else b""


def integer(fields: Iterable[Field], number: int) -> int:
    """An integer field; 0 when absent."""
    found = [value for one, _, value in fields if one == number and isinstance(value, int)]
    return found[-1] if found else 0


def integers(fields: Iterable[Field], number: int) -> list[int]:
    """A repeated integer field, packed or not."""
    found: list[int] = []
    for one, _, value in fields:
        if one != number:
            continue
        if isinstance(value, int):
            found.append(value)
            continue
        position = 0
        while position < len(value):
            item, position = read_varint(value, position)
            found.append(item)
    return found

"""Protocol buffer wire format, as much of it as changing one field needs (protobuf.dev/programming-guides/encoding).

Two messages pass through here whose schemas come with no package: HLO modules get their aliases, and serialized
XLA:CPU executables their object files in a stable order.
"""

from __future__ import annotations

from collections.abc import Iterator

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5


def varint(value: int) -> bytes:
    """`value` as a base-128 varint."""
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*encoded, value])


def number(field: int, value: int) -> bytes:
    """A varint field."""
    return varint(field << 3 | _VARINT) + varint(value)


def message(field: int, payload: bytes) -> bytes:
    """A length-delimited field."""
    return varint(field << 3 | _BYTES) + varint(len(payload)) + payload


def read_varint(data: bytes, start: int) -> tuple[int, int]:
    """The varint at `start`, and where it ends; ValueError if it does not end within `data`."""
    value = shift = 0
    for position in range(start, len(data)):
        value |= (data[position] & 0x7F) << shift
        if data[position] < 0x80:
            return value, position + 1
        shift += 7
    raise ValueError(f"varint at byte {start} does not end")


def fields(data: bytes) -> Iterator[tuple[int, bytes, bytes]]:
    """Fields of a message in order: number, the payload if it is length-delimited (else b""), the whole field."""
    position = 0
    while position < len(data):
        start = position
        tag, position = read_varint(data, position)
        payload = b""
        match tag & 7:
            case 0:
                _, position = read_varint(data, position)
            case 1:
                position += 8
            case 5:
                position += 4
            case 2:
                length, position = read_varint(data, position)
                payload = data[position : position + length]
                position += length
            case kind:
                raise ValueError(f"wire type {kind} at byte {start}")
        if position > len(data):
            raise ValueError(f"field at byte {start} does not end")
        yield tag >> 3, payload, data[start:position]

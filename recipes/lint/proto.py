"""Messages of the protocol buffer wire format, read without a schema, a copy or a C++ library that may abort.

Departs from recipes.wire, which rewrites single fields: here values are wanted, a module may hold gigabytes of
constants (payloads stay views of the one buffer), and the bytes are anyone's (a varint has at most ten bytes, so
damage is found in linear time). The caller knows from the field's number what it is.
"""

from __future__ import annotations

_LONGEST_VARINT = 10
_WIDTHS = {1: 8, 5: 4}


class DamagedError(ValueError):
    """The bytes are not what they should be; `str()` says what was found, without the name of the file."""


class Message:
    """The fields of one message by number; every accessor raises DamagedError for a field of another wire type."""

    __slots__ = ("_fields",)

    def __init__(self, data: memoryview) -> None:
        self._fields: dict[int, list[int | memoryview]] = {}
        position, end = 0, len(data)
        while position < end:
            tag, position = _varint(data, position)
            value: int | memoryview
            kind = tag & 7
            if kind == 0:
                value, position = _varint(data, position)
            else:
                if kind == 2:
                    width, position = _varint(data, position)
                elif kind in _WIDTHS:
                    width = _WIDTHS[kind]
                else:
                    raise DamagedError(f"a field of wire type {kind}")
                value = data[position : position + width]
                position += width
            if position > end or tag < 8:
                raise DamagedError("a field that does not end" if position > end else "a field without a number")
            self._fields.setdefault(tag >> 3, []).append(value)

    def __contains__(self, field: int) -> bool:
        return field in self._fields

    def payloads(self, field: int) -> list[memoryview]:
        """What a repeated bytes, string, message, float or double field holds, each occurrence or packed run."""
        found = self._fields.get(field, [])
        views = [value for value in found if isinstance(value, memoryview)]
        if len(views) < len(found):
            raise DamagedError(f"a number in field {field}")
        return views

    def messages(self, field: int) -> list[Message]:
        """A repeated message field, in order."""
        return [Message(payload) for payload in self.payloads(field)]

    def message(self, field: int) -> Message:
        """A message field; an empty message when it is absent. Occurrences are merged by concatenation."""
        found = self.payloads(field)
        return Message(found[0] if len(found) == 1 else memoryview(b"".join(found)))

    def text(self, field: int) -> str:
        """A string field, the last occurrence; "" when it is absent."""
        found = self.payloads(field)
        try:
            return str(found[-1], "utf-8") if found else ""
        except UnicodeDecodeError:
            raise DamagedError(f"text in field {field} that is not UTF-8") from None

    def number(self, field: int, default: int = 0) -> int:
        """An int64, int32, enum or bool field, the last occurrence."""
        found = self._fields.get(field)
        if not found:
            return default
        if isinstance(found[-1], int):
            return _signed(found[-1])
        raise DamagedError(f"bytes in field {field}")

    def numbers(self, field: int) -> list[int]:
        """A repeated integer field, packed or not; unsigned 64-bit values beyond 2**63 come out negative."""
        found: list[int] = []
        for value in self._fields.get(field, ()):
            if isinstance(value, int):
                found.append(_signed(value))
                continue
            position = 0
            while position < len(value):
                one, position = _varint(value, position)
                found.append(_signed(one))
        return found


def _varint(data: memoryview, position: int) -> tuple[int, int]:
    """The varint at `position`, and where it ends."""
    value = shift = 0
    for byte in data[position : position + _LONGEST_VARINT]:
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
        shift += 7
    raise DamagedError("a number that does not end")


def _signed(value: int) -> int:
    value &= (1 << 64) - 1
    return value - (1 << 64) if value >> 63 else value

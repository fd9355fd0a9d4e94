"""Input-output aliases written into a serialized HloModuleProto, without its schema.

Protocol buffers define the concatenation of two encodings as their merge, so aliases are set by appending the one
field `input_output_alias` (xla/service/hlo.proto: HloModuleProto field 8, HloInputOutputAliasProto).
"""

from __future__ import annotations

from collections.abc import Mapping

from recipes.wire import message, number, varint

_MUST_ALIAS = 2


def with_aliases(hlo: bytes, aliases: Mapping[int, int]) -> bytes:
    """`hlo` with output tuple element o aliased to parameter p for every o: p of `aliases`."""
    entries = b"".join(message(1, _entry(output, parameter)) for output, parameter in sorted(aliases.items()))
    return hlo + message(8, entries)


def _entry(output: int, parameter: int) -> bytes:
    """AliasEntryProto: output_shape_index = [output], parameter_number, kind; an empty parameter_shape_index."""
    return message(1, varint(output)) + number(2, parameter) + number(4, _MUST_ALIAS)

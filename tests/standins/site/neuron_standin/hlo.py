"""HloModuleProto as torch-xla writes it: what the compiler judges (sections 4.2, 5.4).

Field numbers are those of xla/service/hlo.proto and xla/xla_data.proto.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from neuron_standin import wire

# PrimitiveType numbers to the names of torch's dtypes, else HLO's own names.
DTYPES = {
    **{1: "bool", 2: "int8", 3: "int16", 4: "int32", 5: "int64", 6: "uint8", 7: "uint16", 8: "uint32", 9: "uint64"},
    **{10: "float16", 11: "float32", 12: "float64", 16: "bfloat16", 15: "complex64", 18: "complex128"},
    **{13: "tuple", 14: "opaque", 17: "token", 19: "float8_e5m2", 20: "float8_e4m3fn", 23: "float8_e4m3b11fnuz"},
    **{24: "float8_e5m2fnuz", 25: "float8_e4m3fnuz", 28: "float8_e4m3", 29: "float8_e3m4"},
}


@dataclass(frozen=True)
class Instruction:
    """What a rule of the compiler looks at."""

    name: str
    opcode: str
    dtype: str
    shape: tuple[int, ...]
    dynamic: bool
    id: int
    target: str
    parameter: int
    fields: list[wire.Field]


def instruction(data: bytes) -> Instruction:
    fields = wire.decode(data)
    shape = wire.decode(wire.blob(fields, 3))
    return Instruction(
        name=wire.blob(fields, 1).decode(),
        opcode=wire.blob(fields, 2).decode(),
        dtype=DTYPES.get(wire.integer(shape, 2), f"type{wire.integer(shape, 2)}"),
        shape=tuple(wire.integers(shape, 3)),
        dynamic=any(wire.integers(shape, 6)),
        id=wire.integer(fields, 35),
        target=wire.blob(fields, 28).decode(),
        parameter=wire.integer(fields, 9),
        fields=fields,
    )


class Module:
    """A serialized module; ValueError for bytes that are none."""

    def __init__(self, data: bytes) -> None:
        self.fields = wire.decode(data)
        self._entry_id = wire.integer(self.fields, 6)
        if not wire.blobs(self.fields, 3):
            raise ValueError("the module has no computation")

    def instructions(self) -> Iterator[Instruction]:
        """Those of every computation."""
        for computation in wire.blobs(self.fields, 3):
            for one in wire.blobs(wire.decode(computation), 2):
                yield instruction(one)

    def parameters(self) -> list[Instruction]:
        """Those of the entry computation by number."""
        fields = next(found for found in map(wire.decode, wire.blobs(self.fields, 3)) if self.is_entry(found))
        found = [one for one in map(instruction, wire.blobs(fields, 2)) if one.opcode == "parameter"]
        return sorted(found, key=lambda one: one.parameter)

    def ranks(self) -> int:
        """Ranks that meet in the collectives; 1 without any."""
        highest = 0
        for one in self.instructions():
            groups = wire.blobs(one.fields, 49) + wire.blobs(wire.decode(wire.blob(one.fields, 87)), 1)
            highest = max([highest, *(rank for group in groups for rank in wire.integers(wire.decode(group), 1))])
        return highest + 1

    def aliases(self) -> dict[int, int]:
        """Output number to parameter number."""
        entries = [entry for table in wire.blobs(self.fields, 8) for entry in wire.blobs(wire.decode(table), 1)]
        pairs = [wire.decode(entry) for entry in entries]
        return {(wire.integers(pair, 1) or [0])[0]: wire.integer(pair, 2) for pair in pairs}

    def is_entry(self, computation: list[wire.Field]) -> bool:
        """Whether these are the fields of the entry computation."""
        return wire.integer(computation, 5) == self._entry_id

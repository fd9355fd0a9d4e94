"""An HloModuleProto as plain objects: computations of instructions that know their operands and their users.

Departs from XLA's own classes: read straight from the bytes by field number (xla/service/hlo.proto and
xla/xla_data.proto; the numbers are frozen there), so that a module needs neither jaxlib nor to pass XLA's verifier,
and only what rules ask for is decoded. What an instruction rarely has is read from its message when it is asked for.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from ledger.errors import BadInput
from recipes.lint.names import TYPES
from recipes.lint.proto import DamagedError, Message

_BITS = {"pred": 8, "bf16": 16}
_DEEPEST_TUPLE = 32
_MOST_DIMENSIONS = 32
_ACCEPTED = "accepted: a serialized HloModuleProto, such as a .hlo.pb of stage lower"


@dataclass(frozen=True, slots=True)
class Shape:
    """An array (`dtype`, `dims`), or a tuple of shapes; `dynamic` when a dimension is bounded or unbounded."""

    dtype: str
    dims: tuple[int, ...] = ()
    dynamic: bool = False
    parts: tuple[Shape, ...] = ()

    def leaves(self) -> Iterator[Shape]:
        """The arrays and tokens in it, in order."""
        if self.dtype != "tuple":
            yield self
        for part in self.parts:
            yield from part.leaves()

    @property
    def elements(self) -> int:
        """Elements of an array."""
        return math.prod(self.dims)

    @property
    def size(self) -> int:
        """Bytes of an array; 0 for what has no data."""
        digits = re.match(r"[a-z]+(\d+)", self.dtype)
        return self.elements * _BITS.get(self.dtype, int(digits[1]) if digits else 0) // 8

    def __str__(self) -> str:
        if self.dtype == "tuple":
            return f"({', '.join(map(str, self.parts))})"
        return f"{self.dtype}[{','.join(map(str, self.dims))}]"


@dataclass(slots=True, eq=False)
class Instruction:
    """One instruction; `source` is FILE:LINE, or the framework's name of the op, or ""."""

    id: int
    name: str
    opcode: str
    shape: Shape
    operands: tuple[Instruction, ...]
    computation: str
    source: str
    proto: Message
    called: tuple[Computation, ...] = ()
    users: list[Instruction] = field(default_factory=list)

    @property
    def target(self) -> str:
        """The target of a custom call."""
        return self.proto.text(28)

    @property
    def replica_groups(self) -> list[list[int]]:
        """The groups of a collective; empty when it spans all replicas or gives them as an iota."""
        devices = self.proto.message(87)
        groups = devices.messages(1) or self.proto.messages(49)
        return [group.numbers(1) for group in groups]

    @property
    def iota_group_size(self) -> int:
        """Devices of a group whose list is written as an iota; 0 when it is not."""
        # A field of its own since 2026, one of the device list before.
        lists = (self.proto.message(92), self.proto.message(87).message(2))
        return max(one.number(2) for one in lists)

    def window(self, number: int) -> list[int]:
        """One attribute of every window dimension (2 stride, 5 window dilation, 6 base dilation)."""
        return [dimension.number(number, 1) for dimension in self.proto.message(15).messages(1)]


@dataclass(slots=True, eq=False)
class Computation:
    """Instructions in dependency order."""

    name: str
    instructions: list[Instruction]
    root: Instruction


@dataclass(frozen=True, slots=True)
class Alias:
    """Element `output` of the result shares its buffer with element `index` of a parameter."""

    output: tuple[int, ...]
    parameter: int
    index: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Module:
    """A module; `parameters` are those of the entry computation by number."""

    computations: list[Computation]
    entry: Computation
    parameters: dict[int, Instruction]
    aliases: list[Alias]


def read_module(data: bytes, origin: str) -> Module:
    """The module in `data`, an HloModuleProto or XLA's dump of one (HloProto); BadInput that names `origin`."""
    if not data:
        raise BadInput(f"{origin} is empty; {_ACCEPTED}")
    if data[:9] == b"HloModule":
        raise BadInput(f"{origin} is HLO text; {_ACCEPTED}")
    try:
        proto = Message(memoryview(data))
        # A module has its entry's name and program shape (2 and 4), a dump has the module in field 1.
        return _module(proto if 2 in proto or 4 in proto else proto.message(1))
    except DamagedError as error:
        raise BadInput(f"{origin} is damaged or another kind of file: it has {error}; {_ACCEPTED}") from None


def _module(proto: Message) -> Module:
    computations: dict[int, Computation] = {}
    frames = _frames(proto.message(17))
    for one in proto.messages(3):
        computations[one.number(5)] = _computation(one, computations, frames)
    if not computations:
        raise DamagedError("no computation")
    entry = computations.get(proto.number(6))
    if entry is None or entry.name != proto.text(2):
        raise DamagedError("no entry computation")
    parameters = {one.proto.number(9): one for one in entry.instructions if one.opcode == "parameter"}
    # XLA refuses a module without its program shape; a file that was cut off after the computations has none.
    if 4 not in proto or len(proto.message(4).payloads(1)) != len(parameters):
        raise DamagedError("no program shape that fits its parameters")
    entries = [entry for table in proto.messages(8) for entry in table.messages(1)]
    aliases = [Alias(tuple(one.numbers(1)), one.number(2), tuple(one.numbers(3))) for one in entries]
    return Module(list(computations.values()), entry, parameters, aliases)


def _computation(proto: Message, known: dict[int, Computation], frames: list[str]) -> Computation:
    name = proto.text(1)
    by_id: dict[int, Instruction] = {}
    for one in proto.messages(2):
        instruction = _instruction(one, name, by_id, known, frames)
        if instruction.id in by_id:
            raise DamagedError(f"two instructions with id {instruction.id}")
        by_id[instruction.id] = instruction
        for operand in dict.fromkeys(instruction.operands):
            operand.users.append(instruction)
    root = by_id.get(proto.number(6))
    if root is None:
        raise DamagedError("a computation without its root")
    return Computation(name, list(by_id.values()), root)


def _instruction(
    proto: Message, computation: str, earlier: dict[int, Instruction], known: dict[int, Computation], frames: list[str]
) -> Instruction:
    opcode = proto.text(2)
    if not re.fullmatch(r"[a-z][a-z0-9-]*", opcode):
        raise DamagedError("an instruction without an opcode")
    try:
        operands = tuple(earlier[number] for number in proto.numbers(36))
        called = tuple(known[number] for number in proto.numbers(38))
    except KeyError as missing:
        raise DamagedError(f"a reference to {missing}, which is not there before it") from None
    return Instruction(
        id=proto.number(35),
        name=proto.text(1),
        opcode=opcode,
        shape=_shape(proto.message(3)),
        operands=operands,
        computation=computation,
        source=_source(proto.message(7), frames),
        proto=proto,
        called=called,
    )


def _shape(proto: Message, depth: int = 0) -> Shape:
    kind = proto.number(2)
    if kind <= 0 or depth > _DEEPEST_TUPLE:
        raise DamagedError("a shape without a type" if kind <= 0 else "a tuple that is too deep")
    # A type newer than the table keeps its number, for a rule to say that it is not known.
    dtype = TYPES.get(str(kind), f"type{kind}")
    dims, parts = tuple(proto.numbers(3)), proto.messages(4)
    dynamic = any(proto.numbers(6)) or min(dims, default=0) == -(1 << 63)
    if min(dims, default=0) < 0 and not dynamic:
        raise DamagedError("a negative dimension")
    if len(dims) > _MOST_DIMENSIONS or math.prod(dims) >> 63 > 0:
        raise DamagedError("a shape that no memory holds")
    return Shape(dtype, dims, dynamic, tuple(_shape(part, depth + 1) for part in parts))


def _source(metadata: Message, frames: list[str]) -> str:
    """Where the op was written: a line, else what the framework calls it."""
    frame = metadata.number(15)
    if file := metadata.text(3):
        return f"{file}:{metadata.number(4)}"
    if 0 < frame <= len(frames):
        return frames[frame - 1]
    return metadata.text(2) or metadata.text(1)


def _frames(index: Message) -> list[str]:
    """FILE:LINE of every stack frame; its references count from 1."""
    files = [str(payload, "utf-8", "replace") for payload in index.payloads(1)]
    places = [(place.number(1), place.number(3)) for place in index.messages(3)]
    found = []
    for frame in index.messages(4):
        place = frame.number(1)
        file, line = places[place - 1] if 0 < place <= len(places) else (0, 0)
        found.append(f"{files[file - 1]}:{line}" if 0 < file <= len(files) else "")
    return found

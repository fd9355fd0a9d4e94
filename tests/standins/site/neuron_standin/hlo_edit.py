"""Changes to an HLO module: parameter order, constants, aliases (section 2.4 step 3, section 2.2).

Each function takes and returns serialized modules.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from neuron_standin import wire
from neuron_standin.hlo import DTYPES, Module, instruction

_MUST_ALIAS = 2
_NUMBERS = {name: number for number, name in DTYPES.items()}
# LiteralProto: the field of each dtype's elements; the first three hold varints, the others raw bytes.
_VARINTS = {"bool": (2, 1), "int32": (4, 4), "int64": (5, 8)}
_RAW = {"int8": 15, "uint8": 3, "float16": 11, "bfloat16": 13, "float32": 8, "float64": 9}

Rewrite = Callable[[bytes], bytes]


def reordered(hlo: bytes, order: Sequence[int]) -> bytes:
    """The module whose parameter i is the parameter order[i] of this one."""
    new = {old: number for number, old in enumerate(order)}
    if sorted(new) != list(range(len(Module(hlo).parameters()))) or len(order) != len(new):
        raise ValueError(f"{list(order)} is no order of the parameters")

    def renumber(data: bytes) -> bytes:
        one = instruction(data)
        if one.opcode != "parameter":
            return data
        return wire.encode([*(field for field in one.fields if field[0] != 9), (9, 0, new[one.parameter])])

    return _rewritten(hlo, renumber, lambda shape: _chosen(shape, order))


def with_constants(hlo: bytes, values: Mapping[int, bytes]) -> bytes:
    """The module with its last parameters turned into constants with these little-endian elements."""
    count = len(Module(hlo).parameters()) - len(values)
    if sorted(values) != list(range(count, count + len(values))):
        raise ValueError(f"parameters {sorted(values)} are not the last ones")

    def fold(data: bytes) -> bytes:
        one = instruction(data)
        if one.opcode != "parameter" or one.parameter not in values:
            return data
        literal = wire.encode([(1, 2, wire.blob(one.fields, 3)), _elements(one.dtype, values[one.parameter])])
        rest = [field for field in one.fields if field[0] not in {2, 9}]
        return wire.encode([*rest, (2, 2, b"constant"), (8, 2, literal)])

    return _rewritten(hlo, fold, lambda shape: _chosen(shape, range(count)))


def with_unused_parameters(hlo: bytes, added: Sequence[tuple[str, str, tuple[int, ...]]]) -> bytes:
    """The module with more parameters (name, dtype, shape), which nothing reads, after its own."""
    module = Module(hlo)
    count, next_id = len(module.parameters()), max(one.id for one in module.instructions()) + 1
    instructions: list[wire.Field] = []
    shapes: list[wire.Field] = []
    for offset, (name, dtype, dims) in enumerate(added):
        shape = _shape(dtype, dims)
        numbers: list[wire.Field] = [(9, 0, count + offset), (35, 0, next_id + offset)]
        instructions.append((2, 2, wire.encode([(1, 2, name.encode()), (2, 2, b"parameter"), (3, 2, shape), *numbers])))
        shapes.extend([(1, 2, shape), (3, 2, name.encode())])
    more = wire.encode(shapes)
    return _rewritten(hlo, lambda data: data, lambda shape: shape + more, wire.encode(instructions))


def with_aliases(hlo: bytes, aliases: Mapping[int, int]) -> bytes:
    """The module with output o in the buffer of parameter p for every o: p; concatenation merges messages."""
    entries: list[wire.Field] = []
    for output, parameter in sorted(aliases.items()):
        index: wire.Field = (1, 2, wire.varint(output))
        entries.append((1, 2, wire.encode([index, (2, 0, parameter), (4, 0, _MUST_ALIAS)])))
    return hlo + wire.encode([(8, 2, wire.encode(entries))]) if entries else hlo


def _rewritten(hlo: bytes, instructions: Rewrite, program_shape: Rewrite, appended: bytes = b"") -> bytes:
    """The module with the entry computation's instructions, and both program shapes, passed through functions."""
    module = Module(hlo)
    top: list[wire.Field] = []
    for number, kind, value in module.fields:
        changed = value
        if number == 4 and isinstance(value, bytes):
            changed = program_shape(value)
        elif number == 3 and isinstance(value, bytes) and module.is_entry(fields := wire.decode(value)):
            by_number = {2: instructions, 4: program_shape}
            inner = [(n, k, by_number[n](v) if n in by_number and isinstance(v, bytes) else v) for n, k, v in fields]
            changed = wire.encode(inner) + appended
        top.append((number, kind, changed))
    return wire.encode(top)


def _chosen(program_shape: bytes, order: Sequence[int]) -> bytes:
    fields = wire.decode(program_shape)
    shapes, names = wire.blobs(fields, 1), wire.blobs(fields, 3)
    rest = [field for field in fields if field[0] not in {1, 3}]
    ordered: list[wire.Field] = [(1, 2, shapes[old]) for old in order]
    return wire.encode([*ordered, *rest, *((3, 2, names[old]) for old in order if names)])


def _elements(dtype: str, data: bytes) -> wire.Field:
    if dtype in _RAW:
        return _RAW[dtype], 2, data
    number, width = _VARINTS[dtype]
    found = (int.from_bytes(data[i : i + width], "little", signed=True) for i in range(0, len(data), width))
    return number, 2, b"".join(wire.varint(value % 2**64) for value in found)


def _shape(dtype: str, dims: tuple[int, ...]) -> bytes:
    layout = wire.encode((1, 0, axis) for axis in reversed(range(len(dims))))
    return wire.encode([(2, 0, _NUMBERS[dtype]), *((3, 0, size) for size in dims), (5, 2, layout)])

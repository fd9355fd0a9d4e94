"""What a module knows before it runs: its constants, and the integer tensors that are computed from them alone.

Departs from a constant folder in that nothing is rewritten and only what indices are made of is evaluated, with
numpy and exactly: an index is called out of range when it is, never because an interval is wide.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from recipes.lint.hlo import Computation, Instruction
from recipes.lint.proto import DamagedError

Array = np.ndarray[Any, Any]

_VARINTS = {"pred": (2, "?"), "s32": (4, "<i4"), "s64": (5, "<i8"), "u32": (6, "<u4"), "u64": (7, "<u8")}
_BYTES = {
    "s8": (15, "<i1"),
    "u8": (3, "<u1"),
    "s16": (17, "<i2"),
    "u16": (16, "<u2"),
    "f16": (11, "<f2"),
    "bf16": (13, "<u2"),
    "f32": (8, "<f4"),
    "f64": (9, "<f8"),
}
NUMPY = {name: np.dtype(kind) for name, (_, kind) in (_VARINTS | _BYTES).items() if name != "bf16"}
_INTEGERS = NUMPY.keys() - {"f16", "f32", "f64"}
# Larger index tensors are left unknown.
_MOST_ELEMENTS = 1 << 20


def constant(instruction: Instruction) -> Array | None:
    """The value of a constant, bfloat16 as float32; None for other types. DamagedError if it does not fit its shape."""
    shape, literal = instruction.shape, instruction.proto.message(8)
    found: Array
    if shape.dtype in _VARINTS:
        number, kind = _VARINTS[shape.dtype]
        numbers = np.array(literal.numbers(number), dtype=np.int64)
        found = numbers.view(np.uint64) if kind == "<u8" else numbers.astype(kind)
    elif shape.dtype in _BYTES:
        number, kind = _BYTES[shape.dtype]
        data = b"".join(literal.payloads(number))
        found = np.frombuffer(data[: len(data) // np.dtype(kind).itemsize * np.dtype(kind).itemsize], dtype=kind)
    else:
        return None
    if found.size != shape.elements:
        raise DamagedError(f"a constant of {found.size} elements in the shape {shape}")
    if shape.dtype == "bf16":
        found = (found.astype(np.uint32) << 16).view(np.float32)
    return found.reshape(shape.dims)


def known_integers(computation: Computation) -> dict[Instruction, Array]:
    """The value of every integer and boolean tensor that follows from constants and iotas."""
    known: dict[Instruction, Array] = {}
    for one in computation.instructions:
        if one.shape.dtype not in _INTEGERS or one.shape.elements > _MOST_ELEMENTS or one.shape.dynamic:
            continue
        if all(operand in known for operand in one.operands):
            value = _evaluate(one, [known[operand] for operand in one.operands])
            if value is not None and value.shape == one.shape.dims:
                known[one] = value
    return known


def _evaluate(one: Instruction, operands: list[Array]) -> Array | None:
    """The value of an instruction whose operands are known; None for an op that indices are not made of."""
    if one.opcode == "constant":
        return constant(one)
    function = _FUNCTIONS.get(one.opcode)
    if function is None:
        return None
    try:
        with np.errstate(all="ignore"):  # as on the device, where integers wrap
            return np.asarray(function(one, *operands)).astype(NUMPY[one.shape.dtype])
    except (ValueError, IndexError, TypeError):
        return None  # what XLA's verifier would refuse


def _iota(one: Instruction) -> Array:
    dims = one.shape.dims
    axis = one.proto.numbers(14)[0] if 14 in one.proto else 0
    shape = [size if place == axis else 1 for place, size in enumerate(dims)]
    return np.broadcast_to(np.arange(dims[axis]).reshape(shape), dims)


def _broadcast(one: Instruction, operand: Array) -> Array:
    places = one.proto.numbers(14)
    shape = [1] * len(one.shape.dims)
    for place, size in zip(places, operand.shape, strict=True):
        shape[place] = size
    return np.broadcast_to(operand.reshape(shape), one.shape.dims)


def _slice(one: Instruction, operand: Array) -> Array:
    cuts = [slice(cut.number(1), cut.number(2), cut.number(3, 1)) for cut in one.proto.messages(17)]
    return operand[tuple(cuts)]


def _compare(one: Instruction, left: Array, right: Array) -> Array:
    functions = {"EQ": np.equal, "NE": np.not_equal, "LT": np.less, "LE": np.less_equal}
    functions |= {"GT": np.greater, "GE": np.greater_equal}
    direction = one.proto.text(63)
    if direction not in functions:
        raise ValueError(direction)
    found: Array = functions[direction](left, right)
    return found


def _select(_: Instruction, which: Array, x: Array, y: Array) -> Array:
    found: Array = np.where(which, x, y)
    return found


_FUNCTIONS: dict[str, Callable[..., Array]] = {
    "iota": _iota,
    "broadcast": _broadcast,
    "slice": _slice,
    "compare": _compare,
    "reshape": lambda one, x: x.reshape(one.shape.dims),
    "transpose": lambda one, x: np.transpose(x, one.proto.numbers(14)),
    "convert": lambda _, x: x,
    "copy": lambda _, x: x,
    "abs": lambda _, x: np.abs(x),
    "add": lambda _, x, y: x + y,
    "subtract": lambda _, x, y: x - y,
    "multiply": lambda _, x, y: x * y,
    "minimum": lambda _, x, y: np.minimum(x, y),
    "maximum": lambda _, x, y: np.maximum(x, y),
    "clamp": lambda _, low, x, high: np.minimum(np.maximum(x, low), high),
    "and": lambda _, x, y: x & y,
    "or": lambda _, x, y: x | y,
    "select": _select,
    "concatenate": lambda one, *parts: np.concatenate(parts, axis=(one.proto.numbers(14) or [0])[0]),
}

"""Checks of element types: what the device does not hold, and what arrives there by a detour."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from recipes.lint.finding import Check, Hit, Subject
from recipes.lint.hlo import Computation, Instruction, Shape
from recipes.lint.literals import constant
from recipes.lint.names import INTEGERS, JUDGED_TYPES, RESIZING, WIDE_INTEGERS

_CARRIERS = ("tuple", "get-tuple-element")
_MOVES = frozenset({"constant", "convert", "broadcast", "reshape", "transpose", "slice", "copy", "abs"})
_INTEGER_DIVISION = frozenset({"divide", "floor", "multiply", "subtract", "add", "remainder", "sign", "select"})
# Of this size an operand costs bandwidth; smaller ones (RoPE angles) do not.
_LARGE_OPERAND = 1 << 20


def produced(*dtypes: str) -> Check:
    """Instructions that give one of these types; what only carries it through a tuple is left out."""

    def check(subject: Subject) -> Iterator[Hit]:
        for one in subject.instructions:
            for dtype in _leaf_types(one) if one.opcode not in _CARRIERS else ():
                if dtype in dtypes:
                    yield one, f"{one.opcode} gives {dtype}"

    return check


def unknown_types(subject: Subject) -> Iterator[Hit]:
    """Types that no source calls supported."""
    for one in subject.instructions:
        for dtype in _leaf_types(one) if one.opcode not in _CARRIERS else ():
            if dtype not in JUDGED_TYPES:
                yield one, f"{one.opcode} gives {dtype}"


def dynamic(subject: Subject) -> Iterator[Hit]:
    """Bounded and unbounded dimensions, and the opcodes that make them."""
    for one in subject.instructions:
        if any(leaf.dynamic for leaf in one.shape.leaves()) and one.opcode not in _CARRIERS:
            yield one, f"{one.opcode} gives a dynamic dimension"
        elif one.opcode in RESIZING:
            yield one, one.opcode


def float64(subject: Subject) -> Iterator[Hit]:
    """float64 tensors that are no detour (see `_is_detour`)."""
    for computation in subject.module.computations:
        for component in _components(computation):
            if not _is_detour(component, computation):
                yield from ((one, f"{one.opcode} gives f64") for one in component if one.opcode not in _CARRIERS)


def float64_detour(subject: Subject) -> Iterator[Hit]:
    """One hit for each instruction where a detour through float64 ends."""
    for computation in subject.module.computations:
        ends: dict[Instruction, None] = {}
        for component in _components(computation):
            if _is_detour(component, computation):
                ends |= dict.fromkeys(user for one in component for user in one.users if user not in component)
        yield from ((one, f"{one.opcode} of f64 gives {one.shape.dtype}") for one in ends)


def _components(computation: Computation) -> Iterator[list[Instruction]]:
    """float64 instructions that feed one another, each group in the order of the computation."""
    place = {one: number for number, one in enumerate(computation.instructions) if "f64" in _leaf_types(one)}
    seen: set[Instruction] = set()
    for first in place:
        if first in seen:
            continue
        seen.add(first)
        group, waiting = [first], [first]
        while waiting:
            here = waiting.pop()
            new = {other for other in (*here.operands, *here.users) if other in place} - seen
            seen |= new
            group += new
            waiting += new
        yield sorted(group, key=place.__getitem__)


def _is_detour(component: list[Instruction], computation: Computation) -> bool:
    """Whether float64 comes and goes unasked: scalars of Python, compared or converted, and integer division.

    Nothing but constants and conversions leads in, nothing but comparisons and conversions leads out, and what is
    computed in between is the division of integers.
    """
    members = set(component)
    opcodes = {one.opcode for one in component}
    leaves = [user for one in component for user in one.users if user not in members]
    sources = {one.operands[0].shape.dtype for one in component if one.opcode == "convert" and one.operands}
    return (
        opcodes <= _MOVES | _INTEGER_DIVISION
        and (not opcodes & _INTEGER_DIVISION or sources - {"f64"} <= INTEGERS)
        and {user.opcode for user in leaves} <= {"compare", "convert"}
        and computation.root not in members
    )


def wide_integers(subject: Subject) -> Iterator[Hit]:
    """64-bit integers that are more than an index."""
    for computation in subject.module.computations:
        fine: set[Instruction] = set()
        for one in reversed(computation.instructions):
            dtypes = {dtype for dtype in _leaf_types(one) if dtype in WIDE_INTEGERS}
            if not dtypes or one.opcode in _CARRIERS:
                continue
            if one.users and all(user in fine or _only_indexes(one, user) for user in one.users):
                fine.add(one)
                continue
            yield one, f"{one.opcode} gives {' and '.join(sorted(dtypes))}"


def _only_indexes(one: Instruction, user: Instruction) -> bool:
    """Whether `user` takes `one` as an index, compares it, or narrows it to 32 bits."""
    match user.opcode:
        case "gather":
            return one not in user.operands[:1]
        case "scatter":
            return user.operands[len(user.operands) // 2] is one and user.operands.count(one) == 1
        case "dynamic-slice":
            return one not in user.operands[:1]
        case "dynamic-update-slice":
            return one not in user.operands[:2]
        case "compare":
            return True
        case _:
            return user.opcode == "convert" and user.shape.dtype in ("s32", "u32")


def wide_constants(dtype: str, low: int, high: int) -> Check:
    """64-bit constants of `dtype` with a value outside `low` to `high`."""

    def check(subject: Subject) -> Iterator[Hit]:
        for one in subject.of("constant"):
            if one.shape.dtype == dtype and one.shape.elements:
                value = constant(one)
                worst = (
                    [] if value is None else [x for x in (int(value.min()), int(value.max())) if not low <= x <= high]
                )
                if worst:
                    yield one, f"constant {worst[0]} in {dtype}"

    return check


def integer_dots(*, wide: bool) -> Check:
    """Dots of integers: of 64 bits, or of less."""

    def check(subject: Subject) -> Iterator[Hit]:
        for one in subject.of("dot"):
            dtypes = {operand.shape.dtype for operand in one.operands} & INTEGERS
            if dtypes and bool(dtypes & WIDE_INTEGERS) == wide:
                yield one, f"dot of {' and '.join(str(operand.shape) for operand in one.operands)}"

    return check


def float32_dots(*, large: bool) -> Check:
    """float32 dots where most bytes of the parameters and constants are bfloat16."""

    def check(subject: Subject) -> Iterator[Hit]:
        given = subject.of("constant") + list(subject.module.parameters.values())
        sizes = [(leaf.dtype, leaf.size) for one in given for leaf in one.shape.leaves()]
        if 2 * sum(size for dtype, size in sizes if dtype == "bf16") <= sum(size for _, size in sizes):
            return
        for one in subject.of("dot"):
            shapes = [operand.shape for operand in one.operands]
            if _are_float32(shapes) and any(shape.size >= _LARGE_OPERAND for shape in shapes) == large:
                yield one, f"dot of {' and '.join(map(str, shapes))} in a bfloat16 build"

    return check


def _are_float32(shapes: list[Shape]) -> bool:
    return all(shape.dtype == "f32" for shape in shapes)


def negative_infinity(subject: Subject) -> Iterator[Hit]:
    """-inf in a constant that is more than the first value of a reduction or one side of a comparison."""
    for one in subject.of("constant"):
        if one.shape.dtype not in ("f16", "bf16", "f32", "f64"):
            continue
        value = constant(one)
        if value is not None and bool(np.isneginf(value).any()) and _spreads(one):
            yield one, f"constant {one.shape} holds -inf"


def _spreads(one: Instruction) -> bool:
    """Whether the value of `one`, moved but not changed, becomes part of another tensor."""
    waiting, seen = [one], {one}
    while waiting:
        here = waiting.pop()
        for user in here.users:
            if user.opcode in _MOVES and user.opcode != "abs":
                waiting += {user} - seen
                seen.add(user)
            elif user.opcode in ("reduce", "reduce-window"):
                if here in user.operands[: len(user.operands) // 2]:
                    return True
            elif user.opcode != "compare":
                return True
        if not here.users:
            return True
    return False


def _leaf_types(one: Instruction) -> list[str]:
    return list(dict.fromkeys(leaf.dtype for leaf in one.shape.leaves()))

"""Checks of the module as a whole: parameters, aliases, indices, collectives, constants, instruction ids."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from recipes.lint.finding import Check, Hit, Subject
from recipes.lint.hlo import Alias, Instruction, Shape
from recipes.lint.literals import Array
from recipes.lint.names import COLLECTIVES, INTEGERS
from recipes.lint.proto import DamagedError

_LARGEST_ID = 2_147_483_646
_LARGEST_CONSTANT = 64 << 20
_LARGEST_CONSTANTS = 100 << 20
_LARGEST_TENSOR = 4_000_000_000


def instruction_ids(subject: Subject) -> Iterator[Hit]:
    """One hit for all ids that do not fit."""
    large = [one for one in subject.instructions if not 0 <= one.id <= _LARGEST_ID]
    if large:
        yield large[0], f"{len(large)} of {len(subject.instructions)} instruction ids are not below 2147483647"


def unused_parameters(subject: Subject) -> Iterator[Hit]:
    """Parameters that the result does not depend on."""
    entry = subject.module.entry
    reached = {entry.root}
    for one in reversed(entry.instructions):
        if one in reached:
            reached.update(one.operands)
    for number, one in sorted(subject.module.parameters.items()):
        if one not in reached:
            yield one, f"parameter {number}, {one.shape}, has no influence on the result"


def aliases(subject: Subject) -> Iterator[Hit]:
    """Every alias joins one parameter and one output of the same shape and type, and there are as many as expected."""
    outputs: set[tuple[int, ...]] = set()
    taken: set[tuple[int, tuple[int, ...]]] = set()
    for alias in subject.module.aliases:
        if fault := _alias_fault(subject, alias, alias.output in outputs, (alias.parameter, alias.index) in taken):
            one = subject.module.parameters.get(alias.parameter)
            yield one, f"alias of output {list(alias.output)} to parameter {alias.parameter}: {fault}"
        outputs.add(alias.output)
        taken.add((alias.parameter, alias.index))
    expected, found = subject.expected.aliases, len(subject.module.aliases)
    if expected not in (None, found):
        yield None, f"{found} aliases where the build keeps {expected} states on the device"


def _alias_fault(subject: Subject, alias: Alias, twice: bool, again: bool) -> str:
    parameter = subject.module.parameters.get(alias.parameter)
    source = parameter and _element(parameter.shape, alias.index)
    result = _element(subject.module.entry.root.shape, alias.output)
    if source is None or result is None:
        return f"there is no such {'parameter' if source is None else 'output'}"
    if twice or again:
        return f"the {'output' if twice else 'parameter'} is aliased twice"
    return "" if str(source) == str(result) else f"{source} is given and {result} is returned"


def _element(shape: Shape, index: tuple[int, ...]) -> Shape | None:
    for place in index:
        if not 0 <= place < len(shape.parts):
            return None
        shape = shape.parts[place]
    return shape


def collectives(subject: Subject) -> Iterator[Hit]:
    """Collectives of one rank, and groups that are not the ranks of the build."""
    tp = subject.expected.tp
    for one in subject.of(*COLLECTIVES):
        sizes = {len(group) for group in one.replica_groups} or {one.iota_group_size} - {0}
        if tp == 1 or (tp is None and sizes == {1}):
            yield one, f"{one.opcode} in a graph of one rank"
        elif tp is not None and sizes - {tp}:
            yield one, f"{one.opcode} over groups of {sorted(sizes)} ranks where the build has {tp}"


def large_constants(subject: Subject) -> Iterator[Hit]:
    """Constants that should be parameters."""
    found = [(one, one.shape.size) for one in subject.of("constant")]
    for one, size in found:
        if size > _LARGEST_CONSTANT:
            yield one, f"constant {one.shape} has {size >> 20} MiB"
    total = sum(size for _, size in found)
    if total > _LARGEST_CONSTANTS:
        yield None, f"all constants together have {total >> 20} MiB"


def large_tensors(subject: Subject) -> Iterator[Hit]:
    """Tensors near what a gather on the device has returned zeros for."""
    for one in subject.instructions:
        for leaf in one.shape.leaves() if one.opcode not in ("tuple", "get-tuple-element") else ():
            if leaf.size >= _LARGEST_TENSOR:
                yield one, f"{one.opcode} gives {leaf}, {leaf.size / 1e9:.1f} GB"


def run_time_indices(subject: Subject) -> Iterator[Hit]:
    """dynamic-slice and dynamic-update-slice whose place is computed."""
    for one in subject.of("dynamic-slice", "dynamic-update-slice"):
        places = one.operands[1 if one.opcode == "dynamic-slice" else 2 :]
        if any(place.opcode != "constant" for place in places):
            yield one, f"{one.opcode} at a run-time index gives {one.shape}"


def integer_scatters(subject: Subject) -> Iterator[Hit]:
    """Scatters that combine integers or booleans rather than overwrite them."""
    for one in subject.of("scatter"):
        combines = any(computation.root.opcode != "parameter" for computation in one.called)
        if combines and one.operands and one.operands[0].shape.dtype in INTEGERS:
            yield one, f"scatter that combines {one.operands[0].shape}"


def gather_dimensions(subject: Subject) -> Iterator[Hit]:
    """Gathers of a window that also moves along one of its own dimensions."""
    for one in subject.of("gather"):
        numbers = one.proto.message(33)
        both = set(numbers.numbers(3)) - set(numbers.numbers(2)) - set(numbers.numbers(5))
        if both:
            yield one, f"gather indexes dimensions {sorted(both)} that it also returns a window of"


def out_of_range(opcode: str) -> Check:
    """Gathers or scatters whose indices are known before the run and leave the operand."""

    def check(subject: Subject) -> Iterator[Hit]:
        for one in subject.of(opcode):
            place = 1 if opcode == "gather" else len(one.operands) // 2
            known = subject.integers.get(one.operands[place]) if place < len(one.operands) else None
            if known is not None:
                try:
                    yield from list(_outside(one, known))
                except (IndexError, ValueError):
                    raise DamagedError(f"a {opcode} whose dimension numbers do not fit") from None

    return check


def _outside(one: Instruction, indices: Array) -> Iterator[Hit]:
    """Hits for each indexed dimension of the operand; a slice of a gather must fit as a whole."""
    numbers = one.proto.message(33 if one.opcode == "gather" else 48)
    operand, slices = one.operands[0].shape, one.proto.numbers(34)
    axis = numbers.number(4)
    spread = indices[..., None] if axis == indices.ndim else np.moveaxis(indices, axis, -1)
    for component, dimension in enumerate(numbers.numbers(3)[: spread.shape[-1]]):
        rows = operand.dims[dimension]
        last = rows - (slices[dimension] if one.opcode == "gather" else 1)
        values = spread[..., component]
        if values.size and (int(values.min()) < 0 or int(values.max()) > last):
            worst = int(values.min() if values.min() < 0 else values.max())
            yield one, f"{one.opcode} at index {worst} of a dimension of {rows} ({operand})"

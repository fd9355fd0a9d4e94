"""Checks that look at one opcode at a time: which there are, their targets, windows and algorithms."""

from __future__ import annotations

from collections.abc import Iterator

from recipes.lint.finding import Check, Hit, Subject
from recipes.lint.names import INTEGERS, KNOWN, MISSING, TARGETS


def opcode(*names: str) -> Check:
    """Every instruction with one of these opcodes."""

    def check(subject: Subject) -> Iterator[Hit]:
        for one in subject.of(*names):
            yield one, f"{one.opcode} gives {one.shape}"

    return check


def unlisted(subject: Subject) -> Iterator[Hit]:
    """Opcodes of no list and no rule."""
    for one in subject.instructions:
        if one.opcode not in KNOWN:
            yield one, f"{one.opcode} gives {one.shape}"


def missing_in_list(subject: Subject) -> Iterator[Hit]:
    """The opcodes of `MISSING`, and the call that stands for copysign."""
    yield from opcode(*MISSING)(subject)
    for one in subject.of("custom-call"):
        if one.target.lower() == "copysign":
            yield one, f"custom-call to {one.target}"


def unknown_target(subject: Subject) -> Iterator[Hit]:
    """Custom calls whose target the compiler does not know."""
    for one in subject.of("custom-call"):
        if one.target not in TARGETS and one.target.lower() != "copysign":
            yield one, f"custom-call to {one.target!r}"


def integer_top_k(subject: Subject) -> Iterator[Hit]:
    """AwsNeuronTopK takes floats."""
    for one in subject.of("custom-call"):
        if one.target == "AwsNeuronTopK" and one.operands and one.operands[0].shape.dtype in INTEGERS:
            yield one, f"AwsNeuronTopK of {one.operands[0].shape}"


def random_algorithm(subject: Subject) -> Iterator[Hit]:
    """An algorithm other than RNG_DEFAULT."""
    names = {1: "RNG_THREE_FRY", 2: "RNG_PHILOX"}
    for one in subject.of("rng-bit-generator"):
        if number := one.proto.number(70):
            yield one, f"rng-bit-generator with {names.get(number, f'algorithm {number}')}"


def window_dilation(number: int, words: str) -> Check:
    """reduce-window with a dilation: window attribute `number` (5 window, 6 base)."""

    def check(subject: Subject) -> Iterator[Hit]:
        for one in subject.of("reduce-window"):
            if max(one.window(number), default=1) > 1:
                yield one, f"reduce-window with {words} dilation {one.window(number)}"

    return check


def window_operands(subject: Subject) -> Iterator[Hit]:
    """reduce-window of several tensors."""
    for one in subject.of("reduce-window"):
        if len(one.operands) != 2:
            yield one, f"reduce-window with {len(one.operands)} operands"


def convolution(other: int, words: str) -> Check:
    """A convolution with base dilation and window attribute `other` (2 stride, 5 window dilation)."""

    def check(subject: Subject) -> Iterator[Hit]:
        for one in subject.of("convolution"):
            if max(one.window(6), default=1) > 1 and max(one.window(other), default=1) > 1:
                yield one, f"convolution with base dilation {one.window(6)} and {words} {one.window(other)}"

    return check


def arithmetic_shift(subject: Subject) -> Iterator[Hit]:
    """shift-right-arithmetic of anything but 32 bits."""
    for one in subject.of("shift-right-arithmetic"):
        if one.shape.dtype not in ("s32", "u32"):
            yield one, f"shift-right-arithmetic of {one.shape.dtype}"


def many_operand_reduce(subject: Subject) -> Iterator[Hit]:
    """The argmax idiom: a reduction of several tensors at once."""
    for one in subject.of("reduce"):
        if len(one.operands) > 2:
            yield one, f"reduce of {len(one.operands) // 2} tensors gives {one.shape}"


def wide_tanh(subject: Subject) -> Iterator[Hit]:
    """A float32 tanh over a row as wide as Gemma's vocabulary."""
    for one in subject.of("tanh"):
        if one.shape.dtype == "f32" and one.shape.dims and one.shape.dims[-1] >= 262_144:
            yield one, f"tanh gives {one.shape}"

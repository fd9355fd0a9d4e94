"""What the rules produce and what they are given: findings, rules, and the module under judgement."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from recipes.lint.hlo import Instruction, Module
from recipes.lint.literals import Array, known_integers

Severity = Literal["error", "warn", "info"]
SEVERITIES: tuple[Severity, ...] = ("error", "warn", "info")


@dataclass(frozen=True)
class Finding:
    """One verdict. `instruction` is the first of `count` alike; `code` is the compiler's or runtime's, or ""."""

    severity: Severity
    code: str
    rule: str
    instruction: str
    computation: str
    source: str
    message: str
    remedy: str
    count: int = 1


@dataclass(frozen=True)
class Expected:
    """What the caller knows of the build and the module cannot say; None where it does not.

    `tp` is the number of ranks, `aliases` how many states stay on the device.
    """

    tp: int | None = None
    aliases: int | None = None


@dataclass(frozen=True)
class Subject:
    """The module under judgement."""

    module: Module
    expected: Expected

    @cached_property
    def instructions(self) -> list[Instruction]:
        """Those of all computations."""
        return [one for computation in self.module.computations for one in computation.instructions]

    def of(self, *opcodes: str) -> list[Instruction]:
        """Instructions with one of these opcodes."""
        return [one for one in self.instructions if one.opcode in opcodes]

    @cached_property
    def integers(self) -> dict[Instruction, Array]:
        """`known_integers` of all computations."""
        return {one: value for each in self.module.computations for one, value in known_integers(each).items()}


Hit = tuple[Instruction | None, str]
Check = Callable[[Subject], Iterable[Hit]]


@dataclass(frozen=True)
class Rule:
    """One row of the table.

    `basis` says where the rule comes from. What nobody has established for this compiler is `unconfirmed`: the
    finding says so, and it is never an error.
    """

    name: str
    severity: Severity
    code: str
    check: Check
    remedy: str
    basis: str
    unconfirmed: bool = False

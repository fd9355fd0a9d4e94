"""From bytes to findings: every rule of a target against one module, repetitions folded."""

from __future__ import annotations

from dataclasses import replace

from ledger.errors import BadInput
from recipes.lint.finding import SEVERITIES, Expected, Finding, Hit, Rule, Subject
from recipes.lint.hlo import Module, read_module
from recipes.lint.proto import DamagedError
from recipes.lint.rules import RULES


def judge(
    hlo: bytes, target: str, *, expected: Expected | None = None, origin: str = "the HLO module"
) -> list[Finding]:
    """What the rules of `target` find in a serialized HloModuleProto, errors first, then in the table's order.

    Findings that differ in nothing but the instruction are one, with a count. BadInput, which names `origin`, for
    bytes that are no module and for a target without rules.
    """
    if target not in RULES:
        raise BadInput(f"--target is {target!r}; accepted: {', '.join(RULES)}")
    return judge_module(read_module(hlo, origin), target, expected=expected, origin=origin)


def judge_module(
    module: Module, target: str, *, expected: Expected | None = None, origin: str = "the HLO module"
) -> list[Finding]:
    """`judge` for a module that has been read; `target` is one that has rules."""
    subject = Subject(module, expected or Expected())
    try:
        found = [_finding(rule, hit) for rule in RULES[target] for hit in rule.check(subject)]
    except DamagedError as error:
        raise BadInput(f"{origin} is damaged: it has {error}; accepted: a serialized HloModuleProto") from None
    return _folded(sorted(found, key=lambda finding: SEVERITIES.index(finding.severity)))


def _finding(rule: Rule, hit: Hit) -> Finding:
    instruction, message = hit
    return Finding(
        severity=rule.severity,
        code=rule.code,
        rule=rule.name,
        instruction=instruction.name if instruction else "",
        computation=instruction.computation if instruction else "",
        source=instruction.source if instruction else "",
        message=f"{message}: {rule.basis}{' (UNCONFIRMED for compiler 2.23)' if rule.unconfirmed else ''}",
        remedy=rule.remedy,
    )


def _folded(findings: list[Finding]) -> list[Finding]:
    folded: dict[Finding, Finding] = {}
    for finding in findings:
        alike = replace(finding, instruction="", computation="")
        first = folded.get(alike)
        folded[alike] = replace(first, count=first.count + 1) if first else finding
    return list(folded.values())

"""Findings as a list: order, folding, places, and targets."""

from __future__ import annotations

import pytest

from ledger.errors import BadInput
from recipes.lint import Finding, judge
from tests.recipes.lint.corpus import parsed, renumbered

MODULE = """HloModule m

ENTRY main {
  p = f32[4]{0} parameter(0)
  a = f32[4]{0} erf(p), metadata={source_file="gelu.py" source_line=3}
  b = f32[4]{0} erf(a), metadata={source_file="gelu.py" source_line=3}
  c = f32[4]{0} erf(b), metadata={source_file="gelu.py" source_line=9}
  d = f32[4]{0} custom-call(c), custom_call_target="Mine", metadata={op_name="mine"}
  q = f32[4]{0} parameter(1)
  z = f32[] constant(0)
  i = s32[] parameter(2)
  ROOT r = f32[1]{0} dynamic-slice(d, i), dynamic_slice_sizes={1}
}
"""


def test_alike_are_folded_and_the_worst_comes_first() -> None:
    found = judge(renumbered(parsed(MODULE)), "inf2")
    assert [(one.severity, one.rule, one.instruction, one.source, one.count) for one in found] == [
        ("error", "custom-call", "d", "mine", 1),
        ("warn", "missing-operator", "a", "gelu.py:3", 2),
        ("warn", "missing-operator", "c", "gelu.py:9", 1),
        ("warn", "unused-parameter", "q", "", 1),
        ("info", "run-time-index", "r", "", 1),
    ]
    assert {one.computation for one in found} == {"main"}


def test_a_finding_says_what_why_and_what_to_do() -> None:
    first = judge(renumbered(parsed(MODULE)), "inf2")[0]
    assert first == Finding(
        severity="error",
        code="NCC_EVRF015",
        rule="custom-call",
        instruction="d",
        computation="main",
        source="mine",
        message="custom-call to 'Mine': documented codes EHCA005 and EVRF015, with the list of targets",
        remedy="lower the op to elementary HLO, or use one of the AwsNeuron targets",
    )


def test_the_origin_and_the_target_are_named() -> None:
    with pytest.raises(BadInput, match=r"^decode\.hlo\.pb is empty; accepted: "):
        judge(b"", "inf2", origin="decode.hlo.pb")
    with pytest.raises(BadInput, match=r"^--target is 'cpu'; accepted: inf2$"):
        judge(renumbered(parsed(MODULE)), "cpu")


def test_damage_that_a_rule_meets_is_bad_input() -> None:
    hlo = parsed("HloModule m\n\nENTRY e {\n  ROOT c = s64[2]{0} constant({77, 78})\n}\n")
    changed = hlo.replace(bytes([0x2A, 2, 77, 78]), bytes([0x2A, 2, 205, 78]))
    with pytest.raises(
        BadInput, match=r"^it is damaged: it has a constant of 1 elements in the shape s64\[2\]; accepted"
    ):
        judge(changed, "inf2", origin="it")

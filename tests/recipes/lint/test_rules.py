"""Every rule against a module that breaks it, and against a twin that does not."""

from __future__ import annotations

import pytest

from recipes.lint import Expected, judge
from recipes.lint.rules import RULES as TABLE
from tests.recipes.lint.corpus import RULES, case, hits, parsed, renumbered


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("half", ["bad", "good"])
def test_exactly_what_the_file_says_is_found(rule: str, half: str) -> None:
    one = case(rule, half)
    assert hits(judge(one.hlo, "inf2", expected=one.expected)) == one.found


def test_every_rule_has_a_file_that_it_alone_tells_apart() -> None:
    assert sorted(rule.name for rule in TABLE["inf2"]) == RULES
    for rule in RULES:
        bad, good = ({name for _, name, _ in case(rule, half).found} for half in ("bad", "good"))
        assert rule in bad - good


def test_what_nobody_has_established_is_no_error_and_says_so() -> None:
    unconfirmed = {rule.name for rule in TABLE["inf2"] if rule.unconfirmed}
    assert {"loop", "conditional", "host", "unlisted-operator"} <= unconfirmed
    for rule in RULES:
        one = case(rule, "bad")
        for finding in judge(one.hlo, "inf2", expected=one.expected):
            assert ("UNCONFIRMED" in finding.message) == (finding.rule in unconfirmed)
            assert finding.severity != "error" or finding.rule not in unconfirmed
            assert finding.remedy


@pytest.mark.parametrize(("first", "large"), [(2**31 - 4, 0), (2**31 - 3, 1), (2**31 - 1, 3), (2**32, 3), (2**63, 3)])
def test_the_largest_id_is_two_below_2_to_the_31(first: int, large: int) -> None:
    text = "HloModule m\n\nENTRY e {\n  p = f32[] parameter(0)\n  q = f32[] tanh(p)\n  ROOT r = f32[] tanh(q)\n}\n"
    found = judge(renumbered(parsed(text), first), "inf2")
    assert [one.message.partition(" instruction")[0] for one in found] == [f"{large} of 3"] * bool(large)


ALL_REDUCE = """HloModule m

add {
  x = f32[] parameter(0)
  y = f32[] parameter(1)
  ROOT sum = f32[] add(x, y)
}

ENTRY e {
  p = f32[4]{0} parameter(0)
  ROOT r = f32[4]{0} all-reduce(p), replica_groups=GROUPS, to_apply=add
}
"""


@pytest.mark.parametrize(
    ("groups", "tp", "words"),
    [
        ("{{0}}", None, "all-reduce in a graph of one rank"),
        ("{}", None, ""),  # all replicas, however many
        ("{}", 1, "all-reduce in a graph of one rank"),
        ("{}", 2, ""),
        ("{{0,1}}", 1, "all-reduce in a graph of one rank"),
        ("{{0,1}}", 2, ""),
        ("{{0,1}}", 4, "all-reduce over groups of [2] ranks where the build has 4"),
        ("{{0,1},{2,3}}", 4, "all-reduce over groups of [2] ranks where the build has 4"),
        ("[1,2]<=[2]", 2, ""),
        ("[2,1]<=[2]", None, "all-reduce in a graph of one rank"),
        ("[2,2]<=[4]", 4, "all-reduce over groups of [2] ranks where the build has 4"),
    ],
)
def test_collectives_are_those_of_the_build(groups: str, tp: int | None, words: str) -> None:
    found = judge(renumbered(parsed(ALL_REDUCE.replace("GROUPS", groups))), "inf2", expected=Expected(tp=tp))
    assert [one.message.partition(": ")[0] for one in found] == [words] * bool(words)


STATES = """HloModule m, input_output_alias={ ALIASES }

ENTRY e {
  a = f32[8]{0} parameter(0)
  b = f32[8]{0} parameter(1)
  c = bf16[8]{0} parameter(2)
  s = f32[8]{0} add(a, b)
  ROOT r = (f32[8]{0}, f32[8]{0}, bf16[8]{0}) tuple(s, a, c)
}
"""


@pytest.mark.parametrize(
    ("aliases", "expected", "words"),
    [
        ("{0}: (0, {}, must-alias), {1}: (1, {}), {2}: (2, {})", 3, ""),
        ("{0}: (0, {}, must-alias)", None, ""),
        ("{0}: (0, {}, must-alias)", 2, "1 aliases where the build keeps 2 states on the device"),
        ("{2}: (0, {})", None, "alias of output [2] to parameter 0: f32[8] is given and bf16[8] is returned"),
    ],
)
def test_aliases_join_equals(aliases: str, expected: int | None, words: str) -> None:
    hlo = renumbered(parsed(STATES.replace("ALIASES", aliases)))
    found = [one for one in judge(hlo, "inf2", expected=Expected(aliases=expected)) if one.rule == "alias"]
    assert [one.message.rpartition(": ")[0] for one in found] == [words] * bool(words)


@pytest.mark.parametrize(
    ("entries", "words"),
    [
        ([(0, 0), (0, 1)], "the output is aliased twice"),
        ([(0, 0), (1, 0)], "the parameter is aliased twice"),
        ([(3, 0)], "there is no such output"),
        ([(0, 3)], "there is no such parameter"),
    ],
)
def test_aliases_that_xla_would_not_write(entries: list[tuple[int, int]], words: str) -> None:
    hlo = renumbered(parsed(STATES.replace(", input_output_alias={ ALIASES }", "")))
    for output, parameter in entries:
        # HloModuleProto 8, entry 1: output_shape_index [output], parameter_number; written out by hand.
        entry = bytes([0x0A, 1, output, 0x10, parameter])
        hlo += bytes([0x42, len(entry) + 2, 0x0A, len(entry)]) + entry
    found = [one for one in judge(hlo, "inf2") if one.rule == "alias"]
    assert len(found) == 1
    assert words in found[0].message

"""The reader against XLA's own text of the same module, and against files that are none."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jaxlib import _hlo

from ledger.errors import BadInput
from recipes.lint import judge
from recipes.lint.hlo import Module, read_module
from recipes.wire import fields, message
from tests.recipes.lint.corpus import RULES, case, parsed, renumbered

LINE = r"^  (?:ROOT )?%?(\S+) = (\(.*?\)|\S+) ([a-z][a-z0-9-]*)\(((?:[^(){}]|\{[^}]*\})*)\)"


def in_xlas_words(proto: bytes) -> list[tuple[str, str, str, list[str]]]:
    """Name, shape without layout, opcode and operands of every instruction, from the module's text."""
    text = _hlo.HloModule.from_serialized_hlo_module_proto(proto).to_string()
    found = []
    for name, shape, opcode, operands in re.findall(LINE, text, re.MULTILINE):
        plain = re.sub(r"\{[^}]*\}|/\*.*?\*/|<=", "", shape)
        names = re.findall(r"%([\w.-]+)", operands)
        found.append((name, plain, opcode, names))
    return found


def in_ours(module: Module) -> list[tuple[str, str, str, list[str]]]:
    return [
        (one.name, str(one.shape), one.opcode, [operand.name for operand in one.operands])
        for computation in module.computations
        for one in computation.instructions
    ]


@pytest.mark.parametrize("rule", RULES)
def test_every_instruction_is_xlas(rule: str) -> None:
    proto = case(rule, "bad").hlo
    expected = in_xlas_words(proto)
    assert len(expected) > 1
    assert sorted(in_ours(read_module(proto, "it"))) == sorted(expected)


SMALL = """HloModule m

ENTRY e {
  p = f32[4]{0} parameter(0)
  q = f32[4]{0} negate(p), metadata={op_name="jit(f)/neg" source_file="model.py" source_line=12}
  r = f32[4]{0} tanh(q), metadata={op_type="aten::tanh"}
  ROOT s = f32[4]{0} sine(r), metadata={stack_frame_id=1}
}
"""
FRAMES = """
FileNames
1 "attention.py"

FunctionNames
1 "forward"

FileLocations
1 {file_name_id=1 function_name_id=1 line=7 end_line=7 column=1 end_column=4}

StackFrames
1 {file_location_id=1 parent_frame_id=1}

ENTRY"""


def small() -> bytes:
    return parsed(SMALL.replace("\nENTRY", FRAMES))


def test_a_source_is_a_line_else_the_name_of_the_op() -> None:
    sources = [one.source for one in read_module(small(), "it").entry.instructions]
    assert sources == ["", "model.py:12", "aten::tanh", "attention.py:7"]


def test_users_and_operands_mirror_each_other() -> None:
    p, q, *_ = read_module(small(), "it").entry.instructions
    assert q.operands == (p,)
    assert p.users == [q]


def test_a_dump_of_xla_is_unwrapped() -> None:
    dump = message(1, small()) + message(3, b"")
    assert in_ours(read_module(dump, "it")) == in_ours(read_module(small(), "it"))


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "it is empty"),
        (SMALL.encode(), "it is HLO text"),
        (b"hello, world\n", "it is damaged or another kind of file"),
        (b"PK\x03\x04" + bytes(40), "it is damaged or another kind of file"),
        (message(1, b"a name"), "it is damaged or another kind of file"),
        (message(2, b"a text") + message(4, b""), "it has no computation"),
        (message(3, b"") + message(4, b""), "it has a computation without its root"),
    ],
)
def test_a_file_that_is_no_module_is_one_sentence(data: bytes, words: str) -> None:
    with pytest.raises(BadInput, match=words) as caught:
        read_module(data, "it")
    assert str(caught.value).endswith("accepted: a serialized HloModuleProto, such as a .hlo.pb of stage lower")
    assert "\n" not in str(caught.value)


def test_every_truncation_within_the_program_is_refused() -> None:
    hlo = renumbered(parsed(SMALL))
    position, ends = 0, {}
    for field, _, whole in fields(hlo):
        position += len(whole)
        ends[field] = position
    # Beyond its program shape (field 4) nothing is needed to read the module.
    for length in range(ends[4]):
        with pytest.raises(BadInput):
            judge(hlo[:length], "inf2")
    assert judge(hlo[: ends[4]], "inf2") == judge(hlo, "inf2") == []


@given(st.binary(max_size=300))
def test_noise_is_refused(data: bytes) -> None:
    with pytest.raises(BadInput):
        judge(data, "inf2")


@given(st.sampled_from(RULES), st.lists(st.tuples(st.integers(0, 10**6), st.integers(0, 255)), min_size=1, max_size=4))
def test_a_damaged_module_is_judged_or_refused(rule: str, changes: list[tuple[int, int]]) -> None:
    if rule == "large-constant":
        return
    data = bytearray(case(rule, "bad").hlo)
    for place, value in changes:
        data[place % len(data)] = value
    try:
        judge(bytes(data), "inf2")
    except BadInput as error:
        assert "\n" not in str(error)

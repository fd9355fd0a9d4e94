"""Constants and index arithmetic: values worked out by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from recipes.lint.hlo import read_module
from recipes.lint.literals import constant, known_integers
from recipes.lint.proto import DamagedError
from tests.recipes.lint.corpus import parsed


def value_of(text: str) -> Any:
    """The value of the one constant `text`, such as `s32[2]{0} constant({1, 2})`."""
    module = read_module(parsed(f"HloModule m\n\nENTRY e {{\n  ROOT c = {text}\n}}\n"), "it")
    found = constant(module.entry.root)
    return None if found is None else found.tolist()


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("pred[3]{0} constant({1, 0, 1})", [True, False, True]),
        ("s8[2]{0} constant({-128, 127})", [-128, 127]),
        ("u8[2]{0} constant({0, 255})", [0, 255]),
        ("s16[2]{0} constant({-32768, 5})", [-32768, 5]),
        ("u16[] constant(65535)", 65535),
        ("s32[2]{0} constant({-2147483648, 7})", [-2147483648, 7]),
        ("u32[] constant(4294967295)", 4294967295),
        ("s64[2]{0} constant({-9223372036854775808, 9223372036854775807})", [-(2**63), 2**63 - 1]),
        ("u64[] constant(18446744073709551615)", 2**64 - 1),
        ("f16[2]{0} constant({0.5, -inf})", [0.5, -np.inf]),
        ("bf16[3]{0} constant({1.5, -inf, -2})", [1.5, -np.inf, -2.0]),
        ("f32[2,2]{1,0} constant({{1, 2}, {3, -inf}})", [[1.0, 2.0], [3.0, -np.inf]]),
        ("f64[] constant(0.1)", 0.1),
        ("f32[0]{0} constant({})", []),
        ("c64[] constant((1, 2))", None),
    ],
)
def test_constants(text: str, value: Any) -> None:
    assert value_of(text) == value


def test_a_constant_that_does_not_fit_its_shape_is_damage() -> None:
    hlo = parsed("HloModule m\n\nENTRY e {\n  ROOT c = s32[2]{0} constant({77, 78})\n}\n")
    # LiteralProto field 4 holds 77 and 78, packed; the same bytes as one number do not fill the shape.
    assert hlo.count(bytes([0x22, 2, 77, 78])) == 1
    changed = hlo.replace(bytes([0x22, 2, 77, 78]), bytes([0x22, 2, 205, 78]))
    with pytest.raises(DamagedError, match=r"a constant of 1 elements in the shape s32\[2\]"):
        constant(read_module(changed, "it").entry.root)


INDEX_ARITHMETIC = """HloModule m

ENTRY e {
  i = s32[2,3]{1,0} iota(), iota_dimension=1
  c = s32[3]{0} constant({5, -6, 7})
  b = s32[2,3]{1,0} broadcast(c), dimensions={1}
  a = s32[2,3]{1,0} add(i, b)
  s = s32[2,3]{1,0} subtract(a, i)
  m = s32[2,3]{1,0} multiply(a, b)
  low = s32[2,3]{1,0} minimum(a, i)
  high = s32[2,3]{1,0} maximum(a, i)
  zero = s32[] constant(0)
  four = s32[] constant(4)
  kept = s32[2,3]{1,0} clamp(zero, a, four)
  n = pred[2,3]{1,0} compare(a, i), direction=LT
  w = s32[2,3]{1,0} select(n, i, a)
  both = pred[2,3]{1,0} and(n, n)
  t = s32[3,2]{0,1} transpose(a), dimensions={1,0}
  cut = s32[1,2]{1,0} slice(a), slice={[1:2], [0:3:2]}
  r = s32[6]{0} reshape(a)
  wide = s64[6]{0} convert(r)
  joined = s64[12]{0} concatenate(wide, wide), dimensions={0}
  size = s32[2,3]{1,0} abs(a)
  p = s32[2,3]{1,0} parameter(0)
  later = s32[2,3]{1,0} add(p, a)
  half = s32[2,3]{1,0} divide(a, a)
  ROOT out = (s32[2,3]{1,0}, s32[2,3]{1,0}) tuple(later, half)
}
"""


def test_index_arithmetic() -> None:
    module = read_module(parsed(INDEX_ARITHMETIC), "it")
    found = {one.name: value.tolist() for one, value in known_integers(module.entry).items()}
    row = [5, -5, 9]
    assert found == {
        "i": [[0, 1, 2]] * 2,
        "c": [5, -6, 7],
        "b": [[5, -6, 7]] * 2,
        "a": [row] * 2,
        "s": [[5, -6, 7]] * 2,
        "m": [[25, 30, 63]] * 2,
        "low": [[0, -5, 2]] * 2,
        "high": [[5, 1, 9]] * 2,
        "zero": 0,
        "four": 4,
        "kept": [[4, 0, 4]] * 2,
        "n": [[False, True, False]] * 2,
        "w": [[5, 1, 9]] * 2,
        "both": [[False, True, False]] * 2,
        "t": [[5, 5], [-5, -5], [9, 9]],
        "cut": [[5, 9]],
        "r": row * 2,
        "wide": row * 2,
        "joined": row * 4,
        "size": [[5, 5, 9]] * 2,
    }


@given(st.integers(-(2**31), 2**31 - 1), st.integers(-(2**31), 2**31 - 1))
def test_integers_wrap_as_on_the_device(x: int, y: int) -> None:
    text = f"""HloModule m

ENTRY e {{
  x = s32[] constant({x})
  y = s32[] constant({y})
  a = s32[] add(x, y)
  ROOT m = s32[] multiply(a, y)
}}
"""
    known = known_integers(read_module(parsed(text), "it").entry)
    wrapped = ((x + y) * y + 2**31) % 2**32 - 2**31
    assert [value.tolist() for one, value in known.items() if one.name == "m"] == [wrapped]

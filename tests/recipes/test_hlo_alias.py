"""Aliases written by appending bytes, read back by XLA's own parser."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st
from jaxlib import _jax, xla_client

from recipes.hlo_alias import with_aliases


def hlo(size: int) -> bytes:
    """A module with `size` parameters that returns all of them."""
    types = ", ".join(["tensor<4xf32>"] * size)
    arguments = ", ".join(f"%a{i}: tensor<4xf32>" for i in range(size))
    names = ", ".join(f"%a{i}" for i in range(size))
    module = f"module @m {{ func.func public @main({arguments}) -> ({types}) {{ return {names} : {types} }} }}"
    proto: bytes = _jax.mlir.mlir_module_to_xla_computation(module, False, True).as_serialized_hlo_module_proto()
    return proto


def aliases_in(proto: bytes) -> dict[int, int]:
    """What the first line of the module's text says."""
    header = xla_client.XlaComputation(proto).as_hlo_text().split("\n")[0]
    found = re.findall(r"\{(\d+)\}: \((\d+), \{\}, (\S+?)\)", header)
    assert {kind for _, _, kind in found} <= {"must-alias"}
    return {int(output): int(parameter) for output, parameter, _ in found}


@st.composite
def aliases(draw: st.DrawFn) -> tuple[int, dict[int, int]]:
    """A number of parameters, and pairs of distinct outputs and distinct parameters; numbers beyond one byte too."""
    size = draw(st.sampled_from([1, 2, 5, 200]))
    outputs, parameters = (draw(st.permutations(range(size))) for _ in range(2))
    return size, dict(zip(outputs, parameters[: draw(st.integers(0, size))], strict=False))


@given(aliases())
def test_xla_reads_the_aliases(case: tuple[int, dict[int, int]]) -> None:
    size, pairs = case
    assert aliases_in(with_aliases(hlo(size), pairs)) == pairs


def test_nothing_else_of_the_module_changes() -> None:
    plain = hlo(3)
    text, aliased = (
        xla_client.XlaComputation(proto).as_hlo_text().split("\n") for proto in (plain, with_aliases(plain, {1: 2}))
    )
    assert aliases_in(plain) == {}
    assert text[1:] == aliased[1:]
    assert aliased[0].replace(" input_output_alias={ {1}: (2, {}, must-alias) },", "") == text[0]

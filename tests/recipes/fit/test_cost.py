"""Bytes and operations, counted on paper."""

from __future__ import annotations

import pytest

from recipes.fit.cost import Cost, cost_of, dot_flops
from recipes.lint.hlo import read_module
from tests.recipes.fit.fake import signature
from tests.recipes.lint.corpus import parsed, renumbered

MODULE = """HloModule m

inner {
  a = f32[3,5] parameter(0)
  b = f32[5,7] parameter(1)
  ROOT d = f32[3,7] dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}
}

ENTRY e {
  p = f32[3,5] parameter(0)
  q = f32[5,7] parameter(1)
  c = f32[3,7] call(p, q), to_apply=inner
  t = f32[3,7] tanh(c)
  x = f32[2,3,5] parameter(2)
  y = f32[2,5,6] parameter(3)
  z = f32[2,3,6] dot(x, y), lhs_batch_dims={0}, rhs_batch_dims={0}, lhs_contracting_dims={2}, rhs_contracting_dims={1}
  ROOT r = (f32[3,7], f32[2,3,6]) tuple(t, z)
}
"""


def test_products_are_counted_wherever_they_are() -> None:
    assert dot_flops(read_module(renumbered(parsed(MODULE)), "m")) == 2 * 3 * 7 * 5 + 2 * 2 * 3 * 6 * 5


def test_a_step_reads_weights_once_and_rewrites_the_state() -> None:
    weights, mask, positions, logits = 200, 16, 4, 40
    state = 2 * (4 * 2 + 8 * 4) * 2
    assert cost_of(signature("decode"), 7, "bfloat16") == Cost(
        weights + mask + positions + logits + 2 * state, 7, "bfloat16"
    )


@pytest.mark.parametrize(
    ("cost", "ms"),
    [
        # 4.56 GB at 410 GiB/s, which is 440.2 GB/s.
        (Cost(4_560_000_000, 1, "bfloat16"), 10.358),
        (Cost(1, 92_000_000_000, "bfloat16"), 1.0),
        (Cost(1, 92_000_000_000, "float32"), 4.0),
        (Cost(440_234_148, 46_000_000_000, "bfloat16"), 1.0),
    ],
)
def test_the_floor_is_the_slower_of_memory_and_products(cost: Cost, ms: float) -> None:
    assert cost.floor_ms == pytest.approx(ms, rel=1e-4)

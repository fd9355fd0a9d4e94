"""Parts of the step graph that a target chooses: the same mathematics in another form."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from recipes.forms import Form, PiecewiseLinear, TanhGelu, linear_of

CPU = Form(grouped_attention=True, longest_contraction=40)


@pytest.mark.parametrize(("inputs", "widths"), [(96, [32] * 3), (80, [40] * 2), (41, [1] * 41), (48, [24] * 2)])
def test_pieces_add_up_to_the_whole(inputs: int, widths: list[int]) -> None:
    torch.manual_seed(0)
    linear = nn.Linear(inputs, 8, bias=False, dtype=torch.bfloat16)
    made = linear_of(linear, CPU)
    assert isinstance(made, PiecewiseLinear)
    assert [piece.shape[1] for piece in made.pieces] == widths
    pieces = {f"pieces.{n}": part for n, part in enumerate(torch.split(linear.weight, widths[0], 1))}
    x = torch.randn(3, inputs, dtype=torch.bfloat16)
    with torch.no_grad():
        found = torch.func.functional_call(made, pieces, (x,))
        exact = x.double() @ linear.weight.double().t()
    assert found.dtype == torch.bfloat16
    assert found.double() == pytest.approx(exact, abs=0.02)


@pytest.mark.parametrize(
    ("inputs", "dtype", "form"),
    [
        (40, torch.bfloat16, CPU),
        (96, torch.float32, CPU),
        (96, torch.bfloat16, Form(grouped_attention=False, longest_contraction=None)),
    ],
)
def test_others_stay_as_they_are(inputs: int, dtype: torch.dtype, form: Form) -> None:
    linear = nn.Linear(inputs, 8, bias=False, dtype=dtype)
    assert linear_of(linear, form) is linear


def test_gelu_is_the_librarys() -> None:
    x = torch.linspace(-9, 9, 1001)
    assert TanhGelu()(x) == pytest.approx(nn.functional.gelu(x, approximate="tanh"), abs=1e-6)
    rounded = x.bfloat16()
    assert torch.equal(TanhGelu()(rounded), TanhGelu()(rounded.float()).bfloat16())

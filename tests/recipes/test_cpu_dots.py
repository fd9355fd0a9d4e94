"""Products as XLA:CPU gets them: the same numbers, in the forms that are fast there."""

from __future__ import annotations

import re
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from jaxlib.mlir import ir
from jaxlib.mlir.dialects import func

from recipes.cpu_dots import rewrite_dots
from recipes.mlir import context
from serve.runtime.pjrt import Client, to_numpy

SHORT = {"f32": np.dtype(np.float32), "bf16": np.dtype(ml_dtypes.bfloat16)}
INNER, OUT = 48, 32


def module(rows: int, dtype: str, *, widened: bool = False) -> str:
    left, weight, turned, made = (
        f"tensor<{shape}x{dtype}>" for shape in (f"{rows}x{INNER}", f"{OUT}x{INNER}", f"{INNER}x{OUT}", f"{rows}x{OUT}")
    )
    wide = f"tensor<{rows}x{OUT}xf32>"
    widen = f"%2 = stablehlo.convert %1 : ({made}) -> {wide}\n return %2 : {wide}"
    return f"""func.func @main(%x: {left}, %w: {weight}) -> {wide if widened else made} {{
      %0 = stablehlo.transpose %w, dims = [1, 0] : ({weight}) -> {turned}
      %1 = stablehlo.dot %x, %0 : ({left}, {turned}) -> {made}
      {widen if widened else f"return %1 : {made}"}
    }}"""


def rewritten(text: str) -> str:
    with context():
        parsed = ir.Module.parse(text)
        main = next(iter(parsed.body.operations))
        assert isinstance(main, func.FuncOp)
        rewrite_dots(main)
        assert parsed.operation.verify()
        return str(parsed)


def run(text: str, *arrays: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    client = Client()
    program = client.load(client.compile(text.encode()))
    return np.array(to_numpy(program.run([client.put([array]) for array in arrays])[0]))


@pytest.mark.parametrize("dtype", SHORT)
@pytest.mark.parametrize("rows", [1, 5])
def test_numbers_are_those_of_a_float64_product_rounded_once(rows: int, dtype: str) -> None:
    random = np.random.default_rng(rows)
    x, w = (random.standard_normal(shape).astype(SHORT[dtype]) for shape in ((rows, INNER), (OUT, INNER)))
    exact = x.astype(np.float64) @ w.astype(np.float64).T
    found = run(rewritten(module(rows, dtype)), x, w)
    assert found.dtype == SHORT[dtype]
    rounding = float(ml_dtypes.finfo(SHORT[dtype]).eps) / 2  # type: ignore[no-untyped-call]
    assert found.astype(np.float64) == pytest.approx(exact, rel=1.01 * rounding + 1e-6, abs=1e-5)


@pytest.mark.parametrize("rows", [1, 5])
def test_what_is_widened_at_once_is_never_rounded(rows: int) -> None:
    random = np.random.default_rng(rows)
    x, w = (random.standard_normal(shape).astype(SHORT["bf16"]) for shape in ((rows, INNER), (OUT, INNER)))
    exact = x.astype(np.float64) @ w.astype(np.float64).T
    text = rewritten(module(rows, "bf16", widened=True))
    returned = re.search(r"return %(\d+)", text)
    assert returned is not None
    assert re.search(rf"%{returned[1]} = stablehlo\.dot", text)
    assert run(text, x, w) == pytest.approx(exact, abs=1e-5)


@pytest.mark.parametrize(
    ("rows", "dtype", "folded"), [(1, "f32", True), (5, "f32", True), (1, "bf16", False), (5, "bf16", True)]
)
def test_the_transpose_is_folded_except_for_one_bfloat16_row(rows: int, dtype: str, folded: bool) -> None:
    text = rewritten(module(rows, dtype))
    product = re.search(r"stablehlo\.dot(?:_general)? .*", text)
    assert product is not None
    assert ("contracting_dims = [1] x [1]" in product[0]) == folded
    assert product[0].endswith("xf32>")


def test_a_product_of_two_activations_is_left_alone() -> None:
    text = """func.func @main(%x: tensor<5x8xbf16>, %y: tensor<8x4xbf16>) -> tensor<5x4xbf16> {
      %0 = stablehlo.dot %x, %y : (tensor<5x8xbf16>, tensor<8x4xbf16>) -> tensor<5x4xbf16>
      return %0 : tensor<5x4xbf16>
    }"""
    assert re.findall(r"stablehlo\.\w+", rewritten(text)) == ["stablehlo.dot"]

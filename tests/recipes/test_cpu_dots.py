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
@pytest.mark.parametrize("rows", [1, 5, 70])
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
    # A bfloat16 holds eight bits: rounded to it, numbers near 10 would be off by up to 0.03.
    assert run(rewritten(module(rows, "bf16", widened=True)), x, w) == pytest.approx(exact, abs=1e-5)


@pytest.mark.parametrize(
    ("rows", "dtype", "folded"), [(1, "f32", True), (5, "f32", True), (1, "bf16", False), (70, "bf16", True)]
)
def test_the_transpose_is_folded_except_for_one_bfloat16_row(rows: int, dtype: str, folded: bool) -> None:
    text = rewritten(module(rows, dtype))
    product = re.search(r"stablehlo\.dot(?:_general)? .*", text)
    assert product is not None
    assert ("contracting_dims = [1] x [1]" in product[0]) == folded
    assert product[0].endswith("xf32>")


@pytest.mark.parametrize(("inner", "first"), [(48, True), (2048, False)])
def test_few_bfloat16_rows_have_the_weight_first_unless_its_rows_share_cache_sets(inner: int, first: bool) -> None:
    text = rewritten(module(5, "bf16").replace(f"x{INNER}x", f"x{inner}x").replace(f"<{INNER}x", f"<{inner}x"))
    product = re.search(r"stablehlo\.dot_general %(\w+)", text)
    assert product is not None
    assert (product[1] == "arg1") == first


def test_a_product_of_two_activations_is_left_alone() -> None:
    text = """func.func @main(%x: tensor<5x8xbf16>, %y: tensor<8x4xbf16>) -> tensor<5x4xbf16> {
      %0 = stablehlo.dot %x, %y : (tensor<5x8xbf16>, tensor<8x4xbf16>) -> tensor<5x4xbf16>
      return %0 : tensor<5x4xbf16>
    }"""
    assert re.findall(r"stablehlo\.\w+", rewritten(text)) == ["stablehlo.dot"]


def attention(transposed: bool, order: str = "0, 1, 3, 2") -> str:
    """Scores of queries with keys [1, 1, R, d] that the step graph transposes, or values taken as they are."""
    if not transposed:
        return """func.func @main(%p: tensor<1x4x6xbf16>, %v: tensor<1x1x6x8xbf16>) -> tensor<1x4x8xbf16> {
          %0 = stablehlo.reshape %v : (tensor<1x1x6x8xbf16>) -> tensor<1x6x8xbf16>
          %1 = stablehlo.dot_general %p, %0, batching_dims = [0] x [0], contracting_dims = [2] x [1]
            : (tensor<1x4x6xbf16>, tensor<1x6x8xbf16>) -> tensor<1x4x8xbf16>
          return %1 : tensor<1x4x8xbf16>
        }"""
    return f"""func.func @main(%q: tensor<1x4x8xbf16>, %k: tensor<1x1x8x8xbf16>) -> tensor<1x4x8xbf16> {{
      %0 = stablehlo.transpose %k, dims = [{order}] : (tensor<1x1x8x8xbf16>) -> tensor<1x1x8x8xbf16>
      %1 = stablehlo.broadcast_in_dim %0, dims = [0, 1, 2, 3] : (tensor<1x1x8x8xbf16>) -> tensor<1x1x8x8xbf16>
      %2 = stablehlo.reshape %1 : (tensor<1x1x8x8xbf16>) -> tensor<1x8x8xbf16>
      %3 = stablehlo.dot_general %q, %2, batching_dims = [0] x [0], contracting_dims = [2] x [1]
        : (tensor<1x4x8xbf16>, tensor<1x8x8xbf16>) -> tensor<1x4x8xbf16>
      return %3 : tensor<1x4x8xbf16>
    }}"""


@pytest.mark.parametrize(
    ("text", "contracting"),
    [
        (attention(transposed=True), "[2] x [2]"),
        (attention(transposed=True, order="1, 0, 2, 3"), "[2] x [1]"),
        (attention(transposed=False), "[2] x [1]"),
    ],
)
def test_attention_reads_keys_and_values_as_they_lie(text: str, contracting: str) -> None:
    random = np.random.default_rng(3)
    left = random.standard_normal((1, 4, 6 if "%p" in text else 8)).astype(SHORT["bf16"])
    right = random.standard_normal((1, 1, 6 if "%p" in text else 8, 8)).astype(SHORT["bf16"])
    wide = left.astype(np.float64), right.astype(np.float64)[0]
    exact = wide[0] @ (wide[1].swapaxes(1, 2) if contracting == "[2] x [2]" else wide[1])
    made = rewritten(text)
    product = re.search(r"stablehlo\.dot_general .*", made)
    assert product is not None
    assert f"contracting_dims = {contracting}" in product[0]
    assert product[0].endswith("xf32>")
    assert run(made, left, right).astype(np.float64) == pytest.approx(exact, rel=2**-8, abs=1e-5)


def test_a_float32_product_of_activations_is_left_alone() -> None:
    text = attention(transposed=True).replace("bf16", "f32")
    assert rewritten(text) == str_of(text)


def heads(before: str, after: str, dtype: str = "bf16") -> str:
    return f"""func.func @main(%x: tensor<{before}x{dtype}>) -> tensor<{after}x{dtype}> {{
      %0 = stablehlo.reshape %x : (tensor<{before}x{dtype}>) -> tensor<{after}x{dtype}>
      return %0 : tensor<{after}x{dtype}>
    }}"""


@pytest.mark.parametrize(("before", "after"), [("1x1x4x8", "1x1x32"), ("4x8", "1x32"), ("1x4x1x8", "1x32")])
def test_heads_of_one_row_are_laid_side_by_side(before: str, after: str) -> None:
    made = rewritten(heads(before, after))
    assert re.search(r"stablehlo\.concatenate .*tensor<1x32xbf16>", made)
    x = np.random.default_rng(4).standard_normal([int(n) for n in before.split("x")]).astype(SHORT["bf16"])
    assert (run(made, x).reshape(-1) == x.reshape(-1)).all()


@pytest.mark.parametrize(
    ("before", "after", "dtype"),
    [("1x1x4x8", "1x1x32", "f32"), ("2x4x8", "2x32", "bf16"), ("1x1x32", "1x32", "bf16"), ("1x32", "1x4x8", "bf16")],
)
def test_any_other_reshape_is_left_alone(before: str, after: str, dtype: str) -> None:
    text = heads(before, after, dtype)
    assert rewritten(text) == str_of(text)


def str_of(text: str) -> str:
    """The module as MLIR prints it."""
    with context():
        return str(ir.Module.parse(text))

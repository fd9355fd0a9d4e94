"""Products in the form that XLA:CPU runs at memory speed; nothing of this reaches another target.

What was measured (jaxlib 0.10.2) and is done about it:
- XLA:CPU fuses a one-row bfloat16 product with its weight's transpose and conversion into one loop. Every other product
  wants the transpose folded into the contracting dimensions, and bfloat16 ones a float32 result, or it falls back to
  code up to a hundred times slower: converted and transposed copies of a weight, or of all keys and values.
- A few bfloat16 rows are multiplied a fifth faster with the weight on the left: a row of it is then read as it lies,
  unless rows are multiples of a page apart, which share cache sets. The result is turned in three dimensions, as XLA
  would undo a plain transpose.
- A row that is a reshaped matrix of heads is read by that loop with a division for every element, at a tenth of the
  speed: heads are laid side by side by a concatenation, which is a loop of its own.
A bfloat16 product keeps its float32 accumulator and is rounded once, where the step graph rounds it; where that widens
it again at once, not at all.
"""

from __future__ import annotations

from collections.abc import Sequence

from jaxlib.mlir import ir
from jaxlib.mlir.dialects import stablehlo

FEW_ROWS = 64
PAGE = 4096  # bytes


def rewrite_dots(main: ir.Operation) -> None:
    """Rewrite every product in `main` that XLA:CPU is slow at, in place."""
    for op in _named(main, "stablehlo.reshape"):
        if _merges_heads(op):
            with ir.InsertionPoint(op), ir.Location.unknown():
                _lay_heads_side_by_side(op)
    for op in _named(main, "stablehlo.dot"):
        if _weight(op) is not None:
            with ir.InsertionPoint(op), ir.Location.unknown():
                _rewrite_weight(op)
    for op in _named(main, "stablehlo.dot_general"):
        if _element(op.operands[1]) == ir.BF16Type.get() and _element(op.result) == ir.BF16Type.get():
            with ir.InsertionPoint(op), ir.Location.unknown():
                _rewrite_batched(op)


def _named(main: ir.Operation, name: str) -> list[ir.Operation]:
    return [op for op in main.regions[0].blocks[0].operations if op.operation.name == name]


def _element(value: ir.Value) -> ir.Type:
    return ir.RankedTensorType(value.type).element_type


def _shape(value: ir.Value) -> list[int]:
    return list(ir.RankedTensorType(value.type).shape)


def _merges_heads(reshape: ir.Operation) -> bool:
    """Whether one row comes of a matrix: [1, .., H, d] to [1, .., H * d] in bfloat16."""
    before = [size for size in _shape(reshape.operands[0]) if size != 1]
    after = [size for size in _shape(reshape.result) if size != 1]
    return len(before) == 2 and len(after) == 1 and _element(reshape.result) == ir.BF16Type.get()


def _lay_heads_side_by_side(reshape: ir.Operation) -> None:
    heads, width = (size for size in _shape(reshape.operands[0]) if size != 1)
    matrix = _reshaped(reshape.operands[0], [heads, width])
    rows = [stablehlo.slice(matrix, [head, 0], [head + 1, width], [1, 1]) for head in range(heads)]
    flat = stablehlo.concatenate(rows, 1)
    reshape.result.replace_all_uses_with(_reshaped(flat, _shape(reshape.result)))
    reshape.operation.erase()


def _reshaped(value: ir.Value, shape: Sequence[int]) -> ir.Value:
    return stablehlo.reshape(ir.RankedTensorType.get(shape, _element(value)), value)


def _weight(dot: ir.Operation) -> ir.Value | None:
    """The weight [N, K] whose transpose is the right operand of `dot`, if that is what it is."""
    producer = dot.operands[1].owner
    if isinstance(producer, ir.Block) or producer.name != "stablehlo.transpose":
        return None
    weight: ir.Value = producer.operands[0]
    return weight if isinstance(weight.owner, ir.Block) else None


def _rewrite_weight(dot: ir.Operation) -> None:
    """A product of activations [M, K] with a transposed weight [N, K]."""
    left, transposed = dot.operands
    weight = _weight(dot)
    rows, columns = _shape(dot.result)
    narrow = _element(dot.result) == ir.BF16Type.get()
    folded = stablehlo.DotDimensionNumbers.get([], [], [1], [1])
    if narrow and rows == 1:
        product = stablehlo.dot(_wide(rows, columns), left, transposed)
    elif narrow and rows <= FEW_ROWS and 2 * _shape(left)[1] % PAGE:
        turned = stablehlo.dot_general(_wide(columns, rows), weight, left, folded)
        product = stablehlo.transpose(_reshaped(turned, [columns, 1, rows]), [1, 2, 0])
        product = _reshaped(product, [rows, columns])
    else:
        product = stablehlo.dot_general(_wide(rows, columns), left, weight, folded)
    _replace(dot, product)


def _wide(*shape: int) -> ir.Type:
    return ir.RankedTensorType.get(shape, ir.F32Type.get())


def _rewrite_batched(dot: ir.Operation) -> None:
    """A product of bfloat16 activations, as in attention: [B, M, K] with [B, K, N]."""
    left, right = dot.operands
    numbers = stablehlo.DotDimensionNumbers(dot.attributes["dot_dimension_numbers"])
    contracting = list(numbers.rhs_contracting_dimensions)
    if contracting == [1] and list(numbers.rhs_batching_dimensions) == [0] and (source := _untransposed(right)):
        right, contracting = _reshaped(source, [*_shape(right)[:1], *reversed(_shape(right)[1:])]), [2]
    folded = stablehlo.DotDimensionNumbers.get(
        list(numbers.lhs_batching_dimensions),
        list(numbers.rhs_batching_dimensions),
        list(numbers.lhs_contracting_dimensions),
        contracting,
    )
    _replace(dot, stablehlo.dot_general(_wide(*_shape(dot.result)), left, right, folded))


def _untransposed(value: ir.Value) -> ir.Value | None:
    """What `value` [B, K, N] is the transpose of, its last two dimensions swapped and no more; None otherwise."""
    owner = value.owner
    while not isinstance(owner, ir.Block) and owner.name in ("stablehlo.reshape", "stablehlo.broadcast_in_dim"):
        if [n for n in _shape(owner.operands[0]) if n != 1] != [n for n in _shape(owner.results[0]) if n != 1]:
            return None
        owner = owner.operands[0].owner
    if isinstance(owner, ir.Block) or owner.name != "stablehlo.transpose":
        return None
    order = list(ir.DenseI64ArrayAttr(owner.attributes["permutation"]))
    rank = len(order)
    swapped = [*range(rank - 2), rank - 1, rank - 2]
    same_tail = _shape(owner.results[0])[-2:] == _shape(value)[-2:]
    return owner.operands[0] if order == swapped and same_tail else None


def _replace(dot: ir.Operation, product: ir.Value) -> None:
    """Put the float32 `product` in the place of `dot`, rounded if that is of bfloat16 and not widened at once."""
    narrow = ir.RankedTensorType(dot.result.type)
    if narrow.element_type == ir.BF16Type.get():
        for user in [use.owner for use in dot.result.uses]:
            if user.name == "stablehlo.convert" and user.result.type == product.type:
                user.result.replace_all_uses_with(product)
                user.operation.erase()
        product = stablehlo.convert(narrow, product)
    dot.result.replace_all_uses_with(product)
    dot.operation.erase()

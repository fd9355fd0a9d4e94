"""Products in the form that XLA:CPU runs at memory speed; nothing of this reaches another target.

XLA:CPU fuses a one-row bfloat16 product with its weight's transpose and conversion into one loop; every other product
wants the transpose folded into the contracting dimensions, and bfloat16 ones a float32 result, or it falls back to
code up to a hundred times slower. A bfloat16 product keeps its
float32 accumulator and is rounded once, where the step graph rounds it; where that widens it again at once, not at
all.
"""

from __future__ import annotations

from jaxlib.mlir import ir
from jaxlib.mlir.dialects import stablehlo


def rewrite_dots(main: ir.Operation) -> None:
    """Rewrite every product of an activation [M, K] with a transposed weight [N, K] in `main`, in place."""
    dots = [op for op in main.regions[0].blocks[0].operations if op.operation.name == "stablehlo.dot"]
    for dot in dots:
        if _weight(dot) is not None:
            with ir.InsertionPoint(dot), ir.Location.unknown():
                _rewrite(dot)


def _weight(dot: ir.Operation) -> ir.Value | None:
    """The weight [N, K] whose transpose is the right operand of `dot`, if that is what it is."""
    producer = dot.operands[1].owner
    if isinstance(producer, ir.Block) or producer.name != "stablehlo.transpose":
        return None
    weight: ir.Value = producer.operands[0]
    return weight if isinstance(weight.owner, ir.Block) else None


def _rewrite(dot: ir.Operation) -> None:
    left, transposed = dot.operands
    narrow = ir.RankedTensorType(dot.result.type)
    wide = ir.RankedTensorType.get(narrow.shape, ir.F32Type.get())
    rounds = narrow.element_type == ir.BF16Type.get()
    if rounds and narrow.shape[0] == 1:
        product = stablehlo.dot(wide, left, transposed)
    else:
        folded = stablehlo.DotDimensionNumbers.get([], [], [1], [1])
        product = stablehlo.dot_general(wide, left, _weight(dot), folded)
    if rounds:
        for user in [use.owner for use in dot.result.uses]:
            if user.name == "stablehlo.convert" and user.result.type == wide:
                user.result.replace_all_uses_with(product)
                user.operation.erase()
        product = stablehlo.convert(narrow, product)
    dot.result.replace_all_uses_with(product)
    dot.operation.erase()

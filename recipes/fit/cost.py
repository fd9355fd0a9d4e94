"""What one call of a graph must move and compute, and the least time that takes on one core.

Departs from a roofline model of kernels: the floor is of the whole graph, every byte counted once. Each weight is read,
each state buffer is read and written whole (the step graph updates by select), inputs are read, logits are written.
Activations are taken to stay in SBUF.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from recipes.fit.instances import CORE_BANDWIDTH, CORE_FLOPS
from recipes.fit.signatures import logits_bytes, role_bytes
from recipes.lint.hlo import Instruction, Module
from serve.manifest import Signature

_LHS_CONTRACTING = 1


@dataclass(frozen=True)
class Cost:
    """Bytes and floating point operations of one call, on one core."""

    bytes: int
    flops: int
    dtype: str

    @property
    def floor_ms(self) -> float:
        """Milliseconds at the documented bandwidth and peak of a core, the slower of the two."""
        return 1e3 * max(self.bytes / CORE_BANDWIDTH, self.flops / CORE_FLOPS[self.dtype])


def cost_of(signature: Signature, flops: int, dtype: str) -> Cost:
    """The cost of a graph whose products take `flops`."""
    moved = role_bytes(signature, "weight") + role_bytes(signature, "input") + logits_bytes(signature)
    return Cost(moved + 2 * role_bytes(signature, "state"), flops, dtype)


def dot_flops(module: Module) -> int:
    """Operations of all matrix products: two for each element of the result and of the contracted dimensions."""
    return sum(_flops(one) for each in module.computations for one in each.instructions if one.opcode == "dot")


def _flops(dot: Instruction) -> int:
    # HloInstructionProto.dot_dimension_numbers is field 30.
    contracted = dot.proto.message(30).numbers(_LHS_CONTRACTING)
    return 2 * dot.shape.elements * math.prod(dot.operands[0].shape.dims[axis] for axis in contracted)

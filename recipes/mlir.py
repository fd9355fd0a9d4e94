"""An MLIR context that reads the modules jaxlib writes: StableHLO, its predecessor MHLO, and func."""

from __future__ import annotations

from jaxlib.mlir import ir
from jaxlib.mlir._mlir_libs._jax_mlir_ext import register_dialects
from jaxlib.mlir.dialects import mhlo, stablehlo


def context() -> ir.Context:
    """A fresh context, to be entered with `with`."""
    registry = ir.DialectRegistry()
    register_dialects(registry)
    made = ir.Context()
    made.append_dialect_registry(registry)
    made.load_all_available_dialects()
    stablehlo.register_dialect(made)
    mhlo.register_mhlo_dialect(made)
    return made

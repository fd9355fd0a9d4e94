"""HLO to the StableHLO module that XLA:CPU compiles, with state donated to the outputs that replace it.

The conversion keeps an HLO module's aliases only as a module attribute that PJRT ignores; what it honours is
`tf.aliasing_output` on the arguments of main, so that is set from the signature.
"""

from __future__ import annotations

from jaxlib.mlir import ir
from jaxlib.mlir._mlir_libs._jax_mlir_ext import register_dialects
from jaxlib.mlir.dialects import mhlo, stablehlo

from serve.manifest import Signature
from serve.runtime.pjrt import stablehlo_from_hlo

ALIASING = "tf.aliasing_output"


def module_for_cpu(hlo: bytes, signature: Signature) -> bytes:
    """StableHLO text of `hlo`, without source locations; a step then reuses the state's memory."""
    registry = ir.DialectRegistry()
    register_dialects(registry)
    with ir.Context() as context:
        context.append_dialect_registry(registry)
        context.load_all_available_dialects()
        stablehlo.register_dialect(context)
        mhlo.register_mhlo_dialect(context)
        module = ir.Module.parse(stablehlo_from_hlo(hlo))
        main = next(op for op in module.body.operations if op.attributes["sym_name"] == ir.StringAttr.get("main"))
        attributes: list[dict[str, ir.Attribute]] = [{} for _ in signature.parameters]
        for output, parameter in signature.aliases.items():
            attributes[parameter] = {ALIASING: ir.IntegerAttr.get(ir.IntegerType.get_signless(32), output)}
        main.attributes["arg_attrs"] = ir.ArrayAttr.get([ir.DictAttr.get(a) for a in attributes])
        del module.operation.attributes["mhlo.input_output_alias"]
        text: str = module.operation.get_asm(enable_debug_info=False)
        return text.encode()

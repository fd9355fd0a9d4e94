"""HLO to the StableHLO module that XLA:CPU compiles, with state donated to the outputs that replace it.

The conversion keeps an HLO module's aliases only as a module attribute that PJRT ignores; what it honours is
`tf.aliasing_output` on the arguments of main, so that is set from the signature.
"""

from __future__ import annotations

from jaxlib.mlir import ir

from recipes.cpu_dots import rewrite_dots
from recipes.mlir import context
from serve.manifest import Signature
from serve.runtime.pjrt import stablehlo_from_hlo

ALIASING = "tf.aliasing_output"


def module_for_cpu(hlo: bytes, signature: Signature) -> bytes:
    """StableHLO text of `hlo`, without source locations; a step then reuses the state's memory."""
    with context():
        module = ir.Module.parse(stablehlo_from_hlo(hlo))
        main = next(op for op in module.body.operations if op.attributes["sym_name"] == ir.StringAttr.get("main"))
        attributes: list[dict[str, ir.Attribute]] = [{} for _ in signature.parameters]
        for output, parameter in signature.aliases.items():
            attributes[parameter] = {ALIASING: ir.IntegerAttr.get(ir.IntegerType.get_signless(32), output)}
        main.attributes["arg_attrs"] = ir.ArrayAttr.get([ir.DictAttr.get(a) for a in attributes])
        del module.operation.attributes["mhlo.input_output_alias"]
        rewrite_dots(main)
        text: str = module.operation.get_asm(enable_debug_info=False)
        return text.encode()

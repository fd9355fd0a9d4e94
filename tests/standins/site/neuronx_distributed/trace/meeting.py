"""Ranks whose programs differ, as a Python rank number makes them (SDK document, sections 3.1 and 3.3), run together.

XLA:CPU lets the replicas of one program meet in its collectives. So the rank programs become the branches of one
program, and each replica takes its own: collectives of the branches meet in the order in which they stand.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache

from jaxlib import _jax, xla_client
from jaxlib.mlir import ir
from jaxlib.mlir._mlir_libs._jax_mlir_ext import register_dialects
from jaxlib.mlir.dialects import mhlo, stablehlo
from neuron_standin.executor import Executable, Group, program, run_together
from neuron_standin.pjrt import Program
from torch import Tensor

_HEAD = re.compile(r"func\.func (?:public )?@main\((?P<arguments>.*?)\) -> \(?(?P<results>[^{]*?)\)? \{", re.DOTALL)


class Meeting(Group):
    """A group whose ranks need not have the same program."""

    _error: Exception | None = None

    def run(self, rank: int, executable: Executable, arguments: list[Tensor]) -> list[Tensor]:
        """This rank's results, when every rank has called; any rank's error is every rank's."""
        try:
            return super().run(rank, executable, arguments)
        except Exception:
            if self._error is not None:
                raise self._error from None
            raise

    def _run(self) -> None:
        jobs = [job for job in self._jobs if job is not None]
        try:
            self._results = _run_each([one.hlo for one, _ in jobs], jobs)
        except Exception as error:
            self._error = error
            raise


def _run_each(hlos: list[bytes], jobs: list[tuple[Executable, list[Tensor]]]) -> list[list[Tensor]]:
    if len(set(hlos)) == 1:
        return run_together([one for one, _ in jobs], [given for _, given in jobs])
    if all(one.ranks == 1 for one, _ in jobs):
        return [program(hlo, 1).run([given])[0] for hlo, (_, given) in zip(hlos, jobs, strict=True)]
    return _program(tuple(hlos)).run([given for _, given in jobs])


@lru_cache(maxsize=16)
def _program(hlos: tuple[bytes, ...]) -> Program:
    text = merged([_stablehlo(hlo) for hlo in hlos])
    computation = _jax.mlir.mlir_module_to_xla_computation(text, use_tuple_args=False, return_tuple=True)
    return Program(computation.as_serialized_hlo_module_proto(), len(hlos))


def merged(modules: Sequence[str]) -> str:
    """One StableHLO module in which replica r does what modules[r] does; ValueError when their arguments differ."""
    functions, heads = [], []
    for rank, text in enumerate(modules):
        found = _HEAD.search(text)
        assert found, "no @main"
        types = re.findall(r"%arg\d+: (tensor<[^>]*>)", found["arguments"])
        heads.append((types, [one.strip() for one in re.split(r",\s*(?=tensor)", found["results"])]))
        functions.append(_renamed(_inside(text), rank))
    if any(head != heads[0] for head in heads):
        raise ValueError("the ranks' graphs take or return different tensors")
    return "module @ranks {\n" + "\n".join(functions) + _main(*heads[0], len(modules)) + "\n}"


def _inside(text: str) -> str:
    """What stands between the braces of the module."""
    start = text.index("func.func")
    return text[start : text.rindex("}")]


def _renamed(functions: str, rank: int) -> str:
    private = re.sub(r"func\.func (?:public |private )?@", "func.func private @", functions)
    return re.sub(r"@([\w.$-]+)", rf"@rank{rank}.\1", private)


def _main(types: list[str], results: list[str], ranks: int) -> str:
    declared = ", ".join(f"%arg{i}: {one}" for i, one in enumerate(types))
    given = ", ".join(f"%arg{i}" for i in range(len(types)))
    returned, count = ", ".join(results), len(results)
    made = ", ".join(f"%r#{i}" for i in range(count))
    branches = [
        f"{{ %r:{count} = func.call @rank{rank}.main({given}) : ({', '.join(types)}) -> ({returned})\n"
        f"  stablehlo.return {made} : {returned} }}"
        for rank in range(ranks)
    ]
    return f"""
func.func public @main({declared}) -> ({returned}) {{
  %replica = stablehlo.replica_id : tensor<ui32>
  %branch = stablehlo.convert %replica : (tensor<ui32>) -> tensor<i32>
  %r:{count} = "stablehlo.case"(%branch) ({", ".join(branches)}) : (tensor<i32>) -> ({returned})
  return {made} : {returned}
}}"""


def _stablehlo(hlo: bytes) -> str:
    """The module as text without locations."""
    registry = ir.DialectRegistry()
    register_dialects(registry)
    context = ir.Context()
    context.append_dialect_registry(registry)
    context.load_all_available_dialects()
    stablehlo.register_dialect(context)
    mhlo.register_mhlo_dialect(context)
    with context:
        return str(ir.Module.parse(_jax.mlir.xla_computation_to_mlir_module(xla_client.XlaComputation(hlo))))

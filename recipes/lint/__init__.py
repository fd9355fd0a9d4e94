"""Lint: whether neuronx-cc and a NeuronCore will take an HLO module, judged before anyone pays for a compile.

Departs from the compiler's own checks in that it needs no compiler and no device, and says more than the first
error: every finding has the compiler's code where there is one, the line that wrote the op where the module knows
it, and what to do. It reads any HloModuleProto, from whatever framework.
"""

from recipes.lint.finding import Expected, Finding
from recipes.lint.verdict import judge, judge_module

__all__ = ["Expected", "Finding", "judge", "judge_module"]

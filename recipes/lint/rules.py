"""The table of rules for Inferentia2 (NeuronCore-v2) and neuronx-cc 2.23, as data.

Codes and lists are those of the public Neuron SDK documentation (releases 2.28 to 2.31). `basis` says what a rule rests
on; what only third parties have measured says so, and what nobody has established is marked unconfirmed and is no
error. The authoritative list of operators is the compiler's own: `neuronx-cc list-operators --framework XLA`.
"""

from __future__ import annotations

from recipes.lint.finding import Rule
from recipes.lint.rules_error import ERRORS
from recipes.lint.rules_warn import NOTES, WARNINGS

RULES: dict[str, tuple[Rule, ...]] = {"inf2": (*ERRORS, *WARNINGS, *NOTES)}

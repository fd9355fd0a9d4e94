"""What a variant may say to its compiler beyond what the foundry says.

For cpu these are XLA's options, for inf2 flags of neuronx-cc. Each is one word, as flags of inf2 go to the SDK in one
string. Whether an option exists is for the compiler to say.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

_XLA = re.compile(r"(xla_(?:cpu|llvm|backend)_[a-z0-9_]+)=[A-Za-z0-9_.,+-]+")
_NEURON = re.compile(r"(-O)[0-3]|(--[a-z][a-z0-9-]+)(?:=[A-Za-z0-9_.,:=+-]+)?")
# What target and dtype of a variant mean (recipes/neuron/flags.py), and where the SDK wants its result.
_SET = ("--target", "--model-type", "--auto-cast", "--auto-cast-type", "--framework", "--output")


def flags_refusal(target: str, flags: Sequence[str]) -> str | None:
    """What speaks against the flags, as `flags: found ...; accepted: ...`; None when nothing does."""
    pattern, example = (_XLA, "xla_cpu_prefer_vector_width=256") if target == "cpu" else (_NEURON, "--lnc=1 or -O1")
    names: set[str] = set()
    for flag in flags:
        found = pattern.fullmatch(flag)
        if not found:
            return f"flags: found {flag!r}; accepted: one word each, such as {example} for target {target}"
        name = next(filter(None, found.groups()))
        # neuronx-cc takes a flag by its first letters too.
        if target == "inf2" and any(one.startswith(name) for one in _SET):
            return f"flags: found {flag!r}, which target and dtype of a variant decide; accepted: other flags"
        if name in names:
            return f"flags: found {name} twice; accepted: each flag once"
        names.add(name)
    return None


def canonical_flags(target: str, flags: Sequence[str]) -> list[str]:
    """The flags in the order in which a compile is keyed on them: XLA's options have none."""
    return sorted(flags) if target == "cpu" else list(flags)

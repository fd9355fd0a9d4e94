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
# What shapes no code: what the compiler says, and where it works.
_NO_CODE = ("--help", "--version", "--logfile", "--workdir")
# The rest of what the SDK's documentation names.
_FREE = (
    "--optlevel",
    "--logical-nc-config",
    "--lnc",
    "--native-int64",
    "--implicit-integer-downcast",
    "--distribution-strategy",
    "--enable-mixed-precision-accumulation",
    "--disable-mixed-precision-accumulation",
    "--enable-saturate-infinity",
    "--enable-fast-context-switch",
    "--enable-fast-loading-neuron-binaries",
    "--verbose",
)
# Spellings of one thing.
_SAME = {
    "-O": "--optlevel",
    "--lnc": "--logical-nc-config",
    "--disable-mixed-precision-accumulation": "--enable-mixed-precision-accumulation",
}


def flags_refusal(target: str, flags: Sequence[str]) -> str | None:
    """What speaks against the flags, as `flags: found ...; accepted: ...`; None when nothing does."""
    pattern, example = (_XLA, "xla_cpu_prefer_vector_width=256") if target == "cpu" else (_NEURON, "--lnc=1 or -O1")
    before: dict[str, str] = {}
    for flag in flags:
        found = pattern.fullmatch(flag)
        if not found:
            return f"flags: found {flag!r}; accepted: one word each, such as {example} for target {target}"
        name = next(filter(None, found.groups()))
        if target == "inf2" and (said := _not_free(flag, name)):
            return said
        # Given one for a count, XLA ends the process.
        if target == "cpu" and re.search(r"=-\d", flag):
            return f"flags: found {flag!r}; accepted: numbers from 0"
        meant = _SAME.get(name, name)
        if meant in before:
            twice = f"{name} twice" if before[meant] == name else f"{before[meant]} and {name}, which decide one thing"
            return f"flags: found {twice}; accepted: each flag once"
        before[meant] = name
    return None


def _not_free(flag: str, name: str) -> str | None:
    """What speaks against a flag of neuronx-cc, which takes one by its first letters too."""
    if any(one.startswith(name) for one in _SET):
        return f"flags: found {flag!r}, which target and dtype of a variant decide; accepted: other flags"
    if any(one.startswith(name) for one in _NO_CODE):
        return f"flags: found {flag!r}, which shapes no code; accepted: other flags"
    whole = next((one for one in _FREE if one.startswith(name)), name)
    if whole != name and name not in _FREE:
        return f"flags: found {flag!r}, the first letters of {whole}; accepted: whole names"
    return None


def canonical_flags(target: str, flags: Sequence[str]) -> list[str]:
    """The flags in the order in which a compile is keyed on them: XLA's options have none."""
    return sorted(flags) if target == "cpu" else list(flags)

"""Variables that a shell may have set for another program, and that would change a graph or its compiled bytes.

No key knows of them, so what is built must not depend on them: they are dropped. Found by setting each name that is in
torch-xla's and jaxlib's libraries: XLA_IR_DEBUG, XLA_HLO_DEBUG, XLA_USE_BF16, XLA_DOWNCAST_BF16, XLA_NO_SPECIAL_SCALARS
and XLA_DISABLE_FUNCTIONALIZATION give another HLO, XLA_LAYOUTS and XLA_FLAGS may end the process, and NPROC is taken
for the number of cores, which the key has from the kernel.
"""

from __future__ import annotations

from collections.abc import MutableMapping

_PREFIXES = ("XLA_", "PT_XLA_")
_NAMES = ("NPROC", "PJRT_NPROC")


def is_foreign(name: str) -> bool:
    """Whether a variable must not reach what lowers or compiles."""
    return name.startswith(_PREFIXES) or name in _NAMES


def drop_foreign(environment: MutableMapping[str, str]) -> None:
    """Remove those variables."""
    for name in list(filter(is_foreign, environment)):
        del environment[name]

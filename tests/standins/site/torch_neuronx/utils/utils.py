"""Target detection on a host that may have no device (section 2.5)."""

from __future__ import annotations

import os
import shlex
from collections.abc import Sequence

SUPPORTED_TYPES = ("inf2", "trn1", "trn1n", "trn2")


def words(compiler_args: str | Sequence[str] | None) -> list[str]:
    """The compiler's arguments as a list."""
    return shlex.split(compiler_args) if isinstance(compiler_args, str) else list(compiler_args or ())


def target_argument(compiler_args: str | Sequence[str] | None) -> str:
    """The value of --target; "" when it is not there."""
    found = ""
    arguments = words(compiler_args)
    for number, one in enumerate(arguments):
        if one.startswith("--target="):
            found = one.partition("=")[2]
        elif one == "--target" and number + 1 < len(arguments):
            found = arguments[number + 1]
    return found


def get_platform_target(compiler_args: str | Sequence[str] | None = None) -> str:
    """--target, else NEURON_PLATFORM_TARGET_OVERRIDE; this host is never one of the known instances.

    RuntimeError without either.
    """
    target = target_argument(compiler_args) or os.environ.get("NEURON_PLATFORM_TARGET_OVERRIDE", "")
    if not target:
        raise RuntimeError(
            "Unsupported Platform: the instance type is unknown; pass --target in compiler_args or set "
            f"NEURON_PLATFORM_TARGET_OVERRIDE to one of {', '.join(SUPPORTED_TYPES)}"
        )
    if target not in SUPPORTED_TYPES:
        raise RuntimeError(f"Unsupported Platform: target is {target!r}; accepted: {', '.join(SUPPORTED_TYPES)}")
    return target

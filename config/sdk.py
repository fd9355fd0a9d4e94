"""The Neuron SDK that target inf2 is built with: 2.28, the last with torch 2.8 that supports Inferentia2.

Versions are those of AWS's release manifest (2.28.0 of 2026-02-26, 2.28.1 of 2026-03-13). A wheel of AWS adds a hash of
its source as the local part of the version, such as 2.23.6484.0+3b612583.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

SDK = "2.28"
PINS = {
    "torch-neuronx": "2.8.0.2.12.22436",
    "neuronx-cc": "2.23.6484.0",
    "libneuronxla": "2.2.15515.0",
    "neuronx-distributed": "0.17.26814",
}
RUNTIME, DRIVER = "2.30", "2.26"
"""Accepted major.minor of aws-neuronx-runtime-lib, and the lowest of aws-neuronx-dkms."""

_HASH = re.compile(r"\+[0-9a-f]{8}")
# The first number with two dots, on a line that is not about Python.
_VERSION = re.compile(r"^(?!python)[^\n]*?(?<![\w.])(\d+\.\d+\.\S*\w)", re.MULTILINE | re.IGNORECASE)


def told_version(text: str) -> str | None:
    """The version in what `neuronx-cc --version` prints, whose form is not documented; None when there is none."""
    found = _VERSION.search(text)
    return found[1] if found else None


def foreign(versions: Mapping[str, str]) -> str | None:
    """One sentence on the first package that is not AWS's build of this SDK; None when all of them are.

    `versions` may hold other packages as well. One of the four that is missing was not used, and says nothing.
    """
    for package, pin in PINS.items():
        found = versions.get(package, "absent")
        if found in ("absent", pin) or (found.startswith(pin) and _HASH.fullmatch(found, len(pin))):
            continue
        return f"{package} is {found}; accepted: {pin}, the build that AWS released with SDK {SDK}"
    return None

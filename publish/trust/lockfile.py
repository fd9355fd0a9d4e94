"""Packages of a lock file with hashes, as `uv pip compile --generate-hashes` writes it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from ledger.errors import BadInput

_PIN = re.compile(r"([A-Za-z0-9][A-Za-z0-9._-]*)(?:\[[^]]*\])?==([A-Za-z0-9.!+]+)")
_HASH = re.compile(r"--hash=sha256:([0-9a-f]{64})")


@dataclass(frozen=True)
class Package:
    """A pinned distribution; `hashes` are sha256 of the files that an index may serve for it."""

    name: str
    version: str
    hashes: tuple[str, ...]


def read_lock(path: Path) -> list[Package]:
    """The packages of the lock file `path`, by name; BadInput for a line that is no pin with hashes."""
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise BadInput(f"lock file {path} cannot be read: {error.strerror}; accepted: one made by make lock") from None
    lines = re.sub(r"\\\n", " ", re.sub(r"^\s*#.*\n", "", text, flags=re.M)).splitlines()
    packages = [_package(path, line.strip()) for line in lines if line.strip()]
    return sorted(packages, key=lambda one: one.name)


def _package(path: Path, line: str) -> Package:
    pin, hashes = _PIN.match(line), tuple(sorted(_HASH.findall(line)))
    if pin is None or not hashes:
        raise BadInput(f"lock file {path}: found {line[:80]!r}; accepted: NAME==VERSION --hash=sha256:...")
    return Package(re.sub(r"[-_.]+", "-", pin[1]).lower(), pin[2], hashes)

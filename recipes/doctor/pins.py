"""The pins of envs/, and how a version is told from a pin.

Read from the files that the environments are made of, so that there is one place to change.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from config.sdk import DRIVER
from recipes.doctor import Role

__all__ = ["APT", "DRIVER", "ENVS", "NEURON_INDEX", "ROOT", "Pin", "lock_file", "numbers", "read_pins", "source_file"]

ROOT = Path(__file__).resolve().parents[2]
ENVS = ROOT / "envs"
APT = ENVS / "neuron-apt.txt"
NEURON_INDEX = "https://pip.repos.neuron.amazonaws.com"

_PIN = re.compile(r"^([A-Za-z0-9][A-Za-z0-9._-]*)\s*(?:(==|<=|=)\s*([^\s;\\]+))?")


@dataclass(frozen=True)
class Pin:
    """A package and what is accepted of it; an empty `version` accepts any."""

    name: str
    operator: str = ""
    version: str = ""

    @property
    def accepted(self) -> str:
        """What is accepted, for people."""
        return {"<=": f"{self.version} or older"}.get(self.operator, self.version) or "any version"

    def accepts(self, version: str) -> bool:
        """Whether an installed version is accepted; what follows its `+` names a build and does not count."""
        if not self.version:
            return True
        found, wanted = numbers(version), numbers(self.version)
        return found <= wanted if self.operator == "<=" else found == wanted


def read_pins(path: Path) -> list[Pin]:
    """The packages of a requirements file, a lock file or a list of Debian packages, in its order."""
    found = (_PIN.match(line) for line in path.read_text(encoding="utf-8").splitlines())
    return [Pin(match[1], match[2] or "", match[3] or "") for match in found if match]


def numbers(version: str) -> tuple[int, ...]:
    """The release numbers of a version for comparing: without build or revision, nor zeros at the end."""
    release = re.match(r"\d+(?:\.\d+)*", version)
    parts = [int(part) for part in release[0].split(".")] if release else []
    while parts and not parts[-1]:
        parts.pop()
    return tuple(parts)


def source_file(role: Role) -> Path:
    """What the role's environment is made from."""
    return ENVS / f"{role}.in"


def lock_file(role: Role) -> Path:
    """The role's lock; those of inf2 are made where the Neuron index is reached."""
    return ENVS / f"{role}.txt"

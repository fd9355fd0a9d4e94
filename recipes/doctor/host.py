"""Facts of a Neuron host: chips and who holds them, versions of driver and runtime. None where they cannot be told.

A container shows the driver only through /sys, and the runtime library may come from apt, from rpm or with an image.
"""

from __future__ import annotations

import json
import re
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from config.sdk import told_version
from recipes.doctor.tools import ask, find

_VERSION = re.compile(r"\d+\.\d+[\w.]*")
_LIBRARIES = (Path("/opt/aws/neuron/lib"), Path("/usr/lib/x86_64-linux-gnu"), Path("/usr/local/lib"))


@dataclass(frozen=True)
class Holder:
    """A process that holds cores of a chip."""

    pid: int
    command: str


@dataclass(frozen=True)
class Devices:
    """What neuron-ls says, else how many device nodes there are; `problem` where neither tells of a chip."""

    chips: int
    cores: int | None
    holders: tuple[Holder, ...] = ()
    problem: str = ""

    def as_json(self) -> dict[str, Any]:
        """The devices for machines."""
        return asdict(self)


def devices() -> Devices:
    """The chips of this host."""
    nodes = len([path for path in Path("/dev").glob("neuron*") if path.name[len("neuron") :].isdigit()])
    if (program := find("neuron-ls")) is None:
        return Devices(nodes, None, problem="" if nodes else "no /dev/neuron*, and no neuron-ls")
    code, out, err = ask(program, "--json-output")
    try:
        entries = _entries(json.loads(out)) if code == 0 else []
    except (json.JSONDecodeError, TypeError, KeyError, ValueError):
        entries = []
    if not entries:
        said = next(iter((err or out).strip().splitlines()), "nothing")
        return Devices(nodes, None, problem=f"neuron-ls says: {said[:200]}")
    processes = [one for entry in entries for one in entry.get("neuron_processes") or ()]
    holders = {int(one["pid"]): Holder(int(one["pid"]), str(one.get("command", ""))) for one in processes}
    return Devices(len(entries), sum(int(entry["nc_count"]) for entry in entries), tuple(holders.values()))


def driver() -> str | None:
    """The version of the loaded kernel module."""
    module = Path("/sys/module/neuron/version")
    if module.exists():
        return module.read_text(encoding="ascii").strip()
    if program := find("modinfo"):
        code, out, _ = ask(program, "--field", "version", "neuron")
        if code == 0 and out.strip():
            return out.strip()
    return None


def package(name: str) -> str | None:
    """The installed version of one of AWS's packages, by dpkg or rpm."""
    for program, arguments in (
        ("dpkg-query", ("--show", "--showformat=${Version}", name)),
        ("rpm", ("--query", "--queryformat", "%{VERSION}", name)),
    ):
        if path := find(program):
            code, out, _ = ask(path, *arguments)
            if code == 0 and _VERSION.match(out):
                return out.strip()
    return None


def runtime() -> str | None:
    """The version of the runtime library: of its package, else as its file is named."""
    if version := package("aws-neuronx-runtime-lib"):
        return version
    for folder in _LIBRARIES:
        for path in sorted(folder.glob("libnrt.so*")):
            if match := re.search(r"\.so\.(\d+\.\d+\.\d+[\d.]*)$", path.resolve().name):
                return match[1]
    return None


def instance() -> str | None:
    """The instance type, as the board names itself."""
    path = Path("/sys/devices/virtual/dmi/id/product_name")
    try:
        return path.read_text(encoding="utf-8").strip() or None
    except OSError:
        return None


def compiler() -> tuple[str | None, str]:
    """The version that neuronx-cc on PATH tells, and what it said; None when it is not there or tells none."""
    if (program := find("neuronx-cc")) is None:
        return None, "not on PATH"
    code, out, err = ask(program, "--version")
    said = " ".join((out + err).split())[:200] or "nothing"
    return (told_version(out + err) if code == 0 else None), said


def _entries(said: Any) -> list[dict[str, Any]]:
    """The chips: a list up to SDK 2.33, and from 2.34 on a list under some key of an object."""
    lists = [said] if isinstance(said, list) else [one for one in said.values() if isinstance(one, list)]
    return next((one for one in lists if one and "nc_count" in one[0]), [])

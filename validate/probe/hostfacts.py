"""The host that answers: what goes beside the answers, so that they can be read later."""

from __future__ import annotations

import os
import platform
from dataclasses import asdict
from typing import Any

from recipes.doctor import host, machine
from recipes.doctor.packages import installed, is_placeholder
from recipes.doctor.pins import APT, read_pins

PACKAGES = (
    "torch",
    "torch-xla",
    "torch-neuronx",
    "neuronx-cc",
    "libneuronxla",
    "neuronx-distributed",
    "transformers",
    "islpy",
    "numpy",
    "protobuf",
)


def host_facts() -> dict[str, Any]:
    """Versions, devices and memory; None where this host does not tell."""
    return {
        "python": platform.python_version(),
        "platform": platform.platform(),
        "instance": host.instance(),
        "cpus": os.cpu_count(),
        "memory": asdict(machine.memory()),
        "packages": {name: installed(name) for name in PACKAGES},
        "placeholders": [name for name in PACKAGES if is_placeholder(name)],
        "compiler": host.compiler()[0],
        "driver": host.driver(),
        "libraries": {pin.name: host.package(pin.name) for pin in read_pins(APT)} | {"libnrt": host.runtime()},
        "devices": host.devices().as_json(),
    }

"""Which Neuron SDK this host has, told without importing it: what snakemake compares between two runs.

The stage itself asks the SDK for its versions. This only has to differ when another SDK has come into reach, so that
the stage is asked again.
"""

from __future__ import annotations

import shutil
from importlib import metadata, util

from config.sdk import PINS

_MODULES = ("torch_neuronx", "neuronx_distributed", "libneuronxla")


def presence() -> list[str]:
    """Where the modules and the compiler are found, and the versions that were installed."""
    found = [f"neuronx-cc at {shutil.which('neuronx-cc')}"]
    for name in _MODULES:
        spec = util.find_spec(name)
        found.append(f"{name} at {spec.origin if spec else None}")
    for package in PINS:
        try:
            found.append(f"{package} {metadata.version(package)}")
        except metadata.PackageNotFoundError:
            found.append(f"{package} absent")
    return found

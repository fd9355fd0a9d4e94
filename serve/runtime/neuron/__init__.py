"""Target inf2: the step graphs on NeuronCores, through the documented API of the Neuron SDK.

What can be known beforehand is checked before the SDK is imported, each check one sentence; what the SDK says itself is
put into one. torch and the SDK are imported by `load` only, so that no other part of the server needs them.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from serve.errors import ServeError
from serve.manifest import MANIFEST, Builder, Manifest
from serve.runtime.neuron import checks
from serve.runtime.neuron.environment import prepare, visible_cores
from serve.runtime.neuron.host import Host
from serve.runtime.neuron.status import explained

if TYPE_CHECKING:
    from serve.runtime.neuron.program import Program
    from serve.runtime.neuron.runtime import NeuronRuntime


def load(folder: Path, manifest: Manifest) -> NeuronRuntime:
    """The artifact in `folder` on this host's NeuronCores, every graph run once; ServeError when that cannot be."""
    neuron, point = manifest.neuron, manifest.variant
    if neuron is None:
        where = f"{folder / MANIFEST}: neuron"
        raise ServeError(f"{where}: found nothing; accepted: the SDK, as it was built for target {point.target}")
    prepare(os.environ, point.tp)
    host = Host.read()
    checks.check_driver(host.driver, neuron.versions)
    checks.check_runtime(host.runtime, neuron.versions)
    checks.check_choice(host, point.tp, os.environ)
    checks.check_cores(host, point.tp, visible_cores(os.environ))
    with explained(f"{folder}: loading"):
        sdk = checks.imported("torch-neuronx", "torch_neuronx", "trace", neuron.versions)
        runtime = _runtime(sdk, folder, manifest)
    if host.runtime is None:
        checks.check_runtime(Host.read().own_runtime(), neuron.versions)
    return runtime


def _runtime(sdk: Any, folder: Path, manifest: Manifest) -> NeuronRuntime:
    from serve.runtime.neuron import parallel, spmd, traced
    from serve.runtime.neuron.runtime import NeuronRuntime

    loaders: dict[Builder, Callable[[Any, Path, Manifest], Program]] = {
        "trace": traced.load,
        "nxd": spmd.load,
        "parallel": parallel.load,
    }
    builder = manifest.variant.builder
    if builder not in loaders:
        raise ServeError(f"{folder / MANIFEST}: variant.builder: found {builder}; accepted: {', '.join(loaders)}")
    return NeuronRuntime(manifest, loaders[builder](sdk, folder, manifest))

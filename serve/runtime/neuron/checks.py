"""What must hold before an artifact is loaded, each in one sentence; what is not known is no obstacle."""

from __future__ import annotations

import importlib
import re
import sys
from collections.abc import Mapping
from typing import Any

from serve.errors import ServeError
from serve.runtime.neuron.environment import COUNT, VISIBLE, Environment, visible_cores
from serve.runtime.neuron.host import Host, package_version

INDEX = "https://pip.repos.neuron.amazonaws.com"
UNKNOWN = "unknown"  # in a manifest, of a package that said no version where the artifact was built

_HASH = re.compile(r"[0-9a-f]{7,40}")

Versions = Mapping[str, str]


def imported(package: str, name: str, api: str, accepted: Versions) -> Any:
    """The module `name` of a package of the SDK, which has the attribute `api`.

    ServeError when the package is missing, is PyPI's placeholder of that name, or is of another version. What the
    package says of its version counts more than what was recorded when it was installed.
    """
    recorded, root = package_version(package), name.partition(".")[0]
    known = package if recorded is None else f"{package} {recorded}"
    wanted = f"accepted: {_origin(accepted.get(package, UNKNOWN))}"
    try:
        module = importlib.import_module(name)
    except ModuleNotFoundError as error:
        missing = "is not installed" if recorded is None else f"has no module {root}"
        why = missing if error.name == root else f"cannot be imported ({error})"
        raise ServeError(f"{known} {why}; {wanted}") from error
    except Exception as error:  # a damaged package raises whatever its code runs into
        said = " ".join(str(error).split())
        said = said if isinstance(error, (ImportError, OSError, RuntimeError)) else f"{type(error).__name__}: {said}"
        raise ServeError(f"{known} cannot be imported ({said}); {wanted}") from error
    if not hasattr(module, api):
        raise ServeError(f"{known} has no {api}, so it is another package of that name; {wanted}")
    check_version(package, getattr(sys.modules[root], "__version__", None) or recorded, accepted)
    return module


def check_version(package: str, found: str | None, accepted: Versions) -> None:
    """ServeError for another version than the artifact was built with; wheels of one release differ in their hash."""
    wanted = accepted.get(package, UNKNOWN)
    if found and wanted != UNKNOWN and _public(found) != _public(wanted):
        raise ServeError(f"{package} is {found}; accepted: {_origin(wanted)}, which the artifact was built with")


def check_driver(found: str | None, accepted: Versions) -> None:
    """ServeError for a kernel driver older than the lowest accepted."""
    lowest = accepted.get("driver")
    if found and lowest and (numbers := _numbers(found)) and numbers < _numbers(lowest):
        raise ServeError(f"the Neuron driver (aws-neuronx-dkms) is {found}; accepted: {lowest} or later")


def check_runtime(found: str | None, accepted: Versions) -> None:
    """ServeError for a runtime library of another major.minor: it may run and answer garbage."""
    wanted = accepted.get("runtime")
    if found and wanted and (numbers := _numbers(found)) and numbers != _numbers(wanted):
        raise ServeError(f"the Neuron runtime (aws-neuronx-runtime-lib) is {found}; accepted: {wanted}")


def check_choice(host: Host, tp: int, environment: Environment) -> None:
    """ServeError when the user chose a core that this host lacks, or more cores than it has; nothing if not known."""
    cores = sorted(core for device in host.devices or () for core in device.cores)
    if not cores:
        return
    visible = visible_cores(environment)
    if visible is not None and not visible.issubset(cores):
        raise ServeError(
            f"{VISIBLE}: found {environment[VISIBLE]}; accepted: {cores[0]} to {cores[-1]}, this host's NeuronCores"
        )
    chosen = environment.get(COUNT, "")
    if visible is None and chosen and tp <= len(cores) < int(chosen):
        raise ServeError(f"{COUNT}: found {chosen}; accepted: {tp} to {len(cores)}, as this host has {len(cores)}")


def check_cores(host: Host, tp: int, visible: frozenset[int] | None) -> None:
    """ServeError when the host has no device, or surely fewer free cores than `tp` among those `visible`.

    neuron-ls names the processes of a device and not their cores: each holds one at least.
    """
    if host.devices is None:
        return
    if not host.devices:
        raise ServeError(f"this host has no Neuron device (neuron-ls says: {host.said}); accepted: {tp} free cores")
    cores, free = 0, 0
    for device in host.devices:
        usable = len(device.cores if visible is None else visible.intersection(device.cores))
        cores += usable
        free += min(usable, max(0, len(device.cores) - len(device.others())))
    if free >= tp:
        return
    among = f" among {','.join(map(str, sorted(visible)))}" if visible is not None else ""
    held = f", held by {', '.join(map(str, host.others()))}" if cores >= tp else ""
    raise ServeError(f"{free} of this host's {cores} NeuronCores{among} are free{held}; accepted: {tp} or more")


def _public(version: str) -> str:
    """A version without its local part, the hash."""
    return version.partition("+")[0]


def _origin(version: str) -> str:
    """A version, and the index where it has it: a local part other than a wheel's hash is somebody else's."""
    local = version.partition("+")[2]
    return version if local and not _HASH.fullmatch(local) else f"{version} of {INDEX}"


def _numbers(version: str) -> tuple[int, ...]:
    """Major and minor; empty for what is no version."""
    try:
        major, minor = version.split(".")[:2]
        return int(major), int(minor)
    except ValueError:
        return ()

"""What each role is asked for."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

from recipes.doctor import Role, host, machine
from recipes.doctor.finding import Finding
from recipes.doctor.packages import installed, packages, python
from recipes.doctor.pins import APT, DRIVER, NEURON_INDEX, Pin, numbers, read_pins, source_file
from recipes.doctor.tools import beside_python, find

_APT_SOURCE = "from AWS's apt source, as the stage `base` of envs/Dockerfile does"


def findings(role: Role, config: Path) -> Iterator[Finding]:
    """Everything that the role is asked for, in the order in which one would mend it."""
    yield python()
    yield from packages(role)
    yield from {"cpu": _cpu, "inf2-build": _build, "inf2-serve": _serve}[role](config)
    yield machine.open_files()


def _cpu(config: Path) -> Iterator[Finding]:
    for program in ("make", "gcc"):
        path = find(program)
        how = "" if path else f"apt-get install {program}"
        yield Finding(program, "ok" if path else "missing", str(path or "not on PATH"), "on PATH", how)
    have = machine.memory()
    yield machine.memory_for("run the demo", have, [("config/demo.yaml", machine.CPU_MEMORY)])
    yield machine.disk("run the demo", machine.CPU_DISK)


def _build(config: Path) -> Iterator[Finding]:
    yield _compiler()
    yield _pjrt_path()
    yield from machine.of_matrix(config, _build_needs)
    found = host.devices()
    text = found.problem or f"{found.chips} chips"
    yield Finding("NeuronCores", "ok" if found.chips else "note", text, "none to compile; parity and bench need them")


def _build_needs(config: Path) -> Iterator[Finding]:
    from recipes.doctor.need import needs

    matrix = needs(config)
    yield machine.memory_for("compile", machine.memory(), [(one.name, one.compile) for one in matrix.variants])
    yield machine.disk(f"build {config}", matrix.build)


def _serve(config: Path) -> Iterator[Finding]:
    found = host.devices()
    yield _devices(found)
    if found.holders:
        who = ", ".join(f"{one.pid} ({one.command[:40]})" for one in found.holders)
        how = "stop it, or give this process other cores with NEURON_RT_VISIBLE_CORES: a core has one process"
        yield Finding("cores in use", "note", who, "none", how)
    yield _driver(found)
    yield from (_library(pin) for pin in read_pins(APT))
    yield _pjrt_path()
    compiler = installed("neuronx-cc")
    yield Finding("compiler", "ok", f"neuronx-cc {compiler}" if compiler else "none", "none is needed")
    yield from machine.of_matrix(config, _serve_needs)


def _serve_needs(config: Path) -> Iterator[Finding]:
    from recipes.doctor.need import needs

    matrix = needs(config)
    most = max(matrix.variants, key=lambda one: one.artifact)
    yield machine.memory_for("load", machine.memory(), [(one.name, one.load) for one in matrix.variants])
    yield machine.disk(f"hold {most.name}", most.artifact)


def _devices(found: host.Devices) -> Finding:
    kind = host.instance()
    if found.chips:
        cores = f"{found.cores} cores" if found.cores else "cores not told, as neuron-ls is not there"
        return Finding("NeuronCores", "ok", f"{found.chips} chips, {cores}{f', {kind}' if kind else ''}", "1 chip")
    how = (
        f"run on an inf2 instance with aws-neuronx-dkms {DRIVER} or newer; in a container, with "
        "--device=/dev/neuron0 for each chip"
    )
    return Finding("NeuronCores", "missing", found.problem, "1 chip", how)


def _driver(found: host.Devices) -> Finding:
    version, accepted = host.driver(), f"{DRIVER} or newer"
    if version is None:
        text = "not told by /sys/module/neuron or modinfo"
        how = "" if found.chips else f"install aws-neuronx-dkms {DRIVER} or newer on the host {_APT_SOURCE}"
        return Finding("driver", "unknown", text, accepted, how)
    if numbers(version) >= numbers(DRIVER):
        return Finding("driver", "ok", version, accepted)
    return Finding("driver", "wrong", version, accepted, f"update aws-neuronx-dkms on the host {_APT_SOURCE}")


def _library(pin: Pin) -> Finding:
    """A package of neuron-apt.txt: the runtime must be of the SDK's minor version, the others may be absent."""
    is_runtime = pin.name == "aws-neuronx-runtime-lib"
    version = host.runtime() if is_runtime else host.package(pin.name)
    minor = ".".join(map(str, numbers(pin.version)[:2]))
    how = f"apt-get install {pin.name}={pin.version} {_APT_SOURCE}"
    if version is None:
        use = {"aws-neuronx-collectives": "needed for tp 2 and more", "aws-neuronx-tools": "neuron-ls and neuron-top"}
        text = "not told by dpkg, rpm or the name of libnrt.so" if is_runtime else "not told by dpkg or rpm"
        return Finding(pin.name, "unknown", text, f"{minor}.*", f"{how}: {use.get(pin.name, 'it runs every graph')}")
    if numbers(version)[:2] == numbers(minor):
        return Finding(pin.name, "ok", version, f"{minor}.*")
    how += ": a graph on another runtime may be refused, or answer wrongly" if is_runtime else ""
    return Finding(pin.name, "wrong" if is_runtime else "note", version, f"{minor}.*", how)


def _compiler() -> Finding:
    version, said = host.compiler()
    pin = next(pin for pin in read_pins(source_file("inf2-build")) if pin.name == "neuronx-cc")
    if version and pin.accepts(version):
        return Finding("neuronx-cc", "ok", version, pin.accepted)
    if find("neuronx-cc") is None:
        aside = beside_python("neuronx-cc")
        how = _on_path() if aside else f"pip install --extra-index-url {NEURON_INDEX} neuronx-cc=={pin.version}"
        return Finding("neuronx-cc on PATH", "missing", said, pin.accepted, how)
    how = f"see which one comes first ({find('neuronx-cc')}), and put the environment's bin folder before it on PATH"
    return Finding("neuronx-cc on PATH", "wrong", version or f"it says: {said}", pin.accepted, how)


def _pjrt_path() -> Finding:
    name = "libneuronpjrt-path on PATH"
    if path := find("libneuronpjrt-path"):
        return Finding(name, "ok", str(path), "on PATH")
    aside = beside_python("libneuronpjrt-path")
    how = f"{_on_path()}: `import torch_neuronx` fails without it"
    if aside is None:
        how = f"pip install --extra-index-url {NEURON_INDEX} libneuronxla, which brings it"
    return Finding(name, "missing", f"only {aside}" if aside else "not found", "on PATH", how)


def _on_path() -> str:
    return f"activate the environment, or put {Path(sys.executable).parent} first on PATH"

"""Python and its packages against the pins of a role.

PyPI holds placeholders under AWS's names (torch-neuronx 1.0, neuronx-cc 1.0.post1, neuronx-distributed 0.1,
libneuronxla 1.0): a description that begins with WRONG PACKAGE, and a module that raises or whose name is no Python
name. An installer that does not know the Neuron index takes them without a word.
"""

from __future__ import annotations

import platform
import re
from collections.abc import Iterator
from importlib import metadata

from recipes.doctor import Role
from recipes.doctor.finding import Finding
from recipes.doctor.pins import NEURON_INDEX, Pin, lock_file, numbers, read_pins, source_file

PYTHON = "3.11"
_NEURON = ("torch-neuronx", "neuronx-cc", "libneuronxla", "neuronx-distributed")
_PLACEHOLDER = "WRONG PACKAGE"
# No release of these packages that anybody wants is older.
_OLDEST = {"torch-neuronx": (1, 11), "neuronx-cc": (2,), "libneuronxla": (2,), "neuronx-distributed": (0, 2)}
_REASONS = {
    "torch-xla": "2.8.0 is 10 to 15 % slower on Neuron (release notes of SDK 2.28)",
    "islpy": "2026.2.1 breaks the compiler with NCC_ISMP902 and exit code 70 (aws-neuron-sdk#1391)",
}
_SHOWN = 6


def python() -> Finding:
    """The interpreter: every lock is for one minor version and one platform."""
    found = f"{platform.python_version()}, {platform.system()} {platform.machine()}"
    fits = platform.python_version().startswith(f"{PYTHON}.") and (platform.system(), platform.machine()) == (
        "Linux",
        "x86_64",
    )
    how = f"run on x86-64 Linux with python{PYTHON}, which the environment is locked for"
    return Finding("python", "ok" if fits else "wrong", found, f"{PYTHON}, Linux x86_64", "" if fits else how)


def packages(role: Role) -> Iterator[Finding]:
    """A finding per pinned package, one for the others together, and one for the lock."""
    pins = read_pins(source_file(role))
    yield from (_pinned(pin, role) for pin in pins if pin.version)
    absent = [pin.name for pin in pins if not pin.version and installed(pin.name) is None]
    count = sum(not pin.version for pin in pins)
    yield Finding(
        "other packages",
        "missing" if absent else "ok",
        f"{', '.join(absent)} not installed" if absent else f"{count} installed",
        f"those of envs/{role}.in",
        _install(role) if absent else "",
    )
    yield _lock(role)


def installed(name: str) -> str | None:
    """The version of an installed distribution; None when there is none."""
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def is_placeholder(name: str) -> bool:
    """Whether what is installed under an AWS name is what PyPI holds there: it says so, or no real one is so old."""
    try:
        found = metadata.metadata(name)
    except metadata.PackageNotFoundError:
        return False
    text = f"{found.get('Description', '')}{found.get('Summary', '')}{found.get_payload()}"  # type: ignore[attr-defined]
    return _PLACEHOLDER in text or numbers(found["Version"]) < _OLDEST.get(name, ())


def _pinned(pin: Pin, role: Role) -> Finding:
    version = installed(pin.name)
    if version is None and pin.operator == "<=":
        # A bound on what others bring: it is for them to say whether they need it.
        return Finding(pin.name, "note", "not installed", pin.accepted)
    if version is None:
        return Finding(pin.name, "missing", "not installed", pin.accepted, _install(role, pin))
    if pin.name in _NEURON and is_placeholder(pin.name):
        found = f"{version}, the placeholder that PyPI holds under this name"
        how = f"pip uninstall {pin.name}; {_install(role, pin)}"
        return Finding(pin.name, "wrong", found, pin.accepted, how)
    if pin.accepts(version):
        return Finding(pin.name, "ok", version, pin.accepted)
    reason = f"; {_REASONS[pin.name]}" if pin.name in _REASONS else ""
    return Finding(pin.name, "wrong", version, pin.accepted, _install(role, pin) + reason)


def _install(role: Role, pin: Pin | None = None) -> str:
    if role == "cpu":
        return "make venv, then .venv/bin/python"
    index = f" --extra-index-url {NEURON_INDEX}"
    if pin is None or not lock_file(role).exists():
        file = lock_file(role) if lock_file(role).exists() else source_file(role)
        return f"pip install{index} -r envs/{file.name}"
    return f"pip install{index if pin.name in _NEURON else ''} '{pin.name}{pin.operator}{pin.version}'"


def _lock(role: Role) -> Finding:
    path, name = lock_file(role), f"envs/{role}.txt"
    if not path.exists():
        how = f"make lock-inf2 on a host that reaches {NEURON_INDEX}: until then the compiler's own packages may drift"
        return Finding("lock", "note", "not there", name, how)
    pins = read_pins(path)
    other = [f"{pin.name} {installed(pin.name) or 'absent'}" for pin in pins if not _as_locked(pin)]
    if not other:
        return Finding("lock", "ok", f"{len(pins)} packages as locked", name)
    shown = ", ".join(other[:_SHOWN]) + (f" and {len(other) - _SHOWN} more" if len(other) > _SHOWN else "")
    return Finding("lock", "wrong", f"not as locked: {shown}", name, _install(role))


def _as_locked(pin: Pin) -> bool:
    version = installed(pin.name)
    return version is not None and re.sub(r"\+.*", "", version) == re.sub(r"\+.*", "", pin.version)

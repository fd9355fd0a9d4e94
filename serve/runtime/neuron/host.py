"""What this host has for a Neuron graph: devices with the processes on them, and versions. None stands for unknown."""

from __future__ import annotations

import ctypes
import json
import os
import shutil
import subprocess
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

TOOLS = Path("/opt/aws/neuron/bin")
LIBRARIES = ("libnrt.so.1", "/opt/aws/neuron/lib/libnrt.so.1")
DRIVER = Path("/sys/module/neuron/version")
DEVICES = Path("/dev")
SAMPLE_VERSION = "2.0.0"
"""What the neuron-ls guide shows for every process; no runtime of inf2 has that number."""


@dataclass(frozen=True)
class Process:
    """A process that holds at least one core of a device."""

    pid: int
    command: str
    runtime: str | None = None

    def __str__(self) -> str:
        return f"pid {self.pid} ({self.command or 'command unknown'})"


@dataclass(frozen=True)
class Device:
    """One chip: the numbers of its cores, and who is on it. neuron-ls does not say which core a process holds."""

    cores: tuple[int, ...]
    processes: tuple[Process, ...] = ()

    def others(self) -> tuple[Process, ...]:
        """The processes on this device that are not this one, each once."""
        found = {process.pid: process for process in self.processes if process.pid != os.getpid()}
        return tuple(found.values())


@dataclass(frozen=True)
class Host:
    """This host as far as it is known."""

    devices: tuple[Device, ...] | None
    driver: str | None = None
    runtime: str | None = None
    said: str = ""  # by neuron-ls, where it found no device

    @classmethod
    def read(cls) -> Host:
        """Look around; nothing here raises."""
        devices, said = _devices()
        return cls(devices, driver_version(), runtime_version(), said)

    def others(self) -> tuple[Process, ...]:
        """Every process on the devices but this one."""
        found = {process.pid: process for device in self.devices or () for process in device.others()}
        return tuple(found.values())

    def own_runtime(self) -> str | None:
        """The runtime version that neuron-ls shows for this process."""
        processes = (process for device in self.devices or () for process in device.processes)
        shown = next((process.runtime for process in processes if process.pid == os.getpid()), None)
        return None if shown == SAMPLE_VERSION else shown


def package_version(package: str) -> str | None:
    """The installed version of a Python package, with its local part."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def driver_version(file: Path = DRIVER) -> str | None:
    """The version of the loaded kernel driver, aws-neuronx-dkms."""
    try:
        return file.read_text().strip() or None
    except (OSError, UnicodeDecodeError):
        return None


class _Version(ctypes.Structure):
    """nrt_version_t of libnrt's nrt_version.h."""

    _fields_ = (
        *((name, ctypes.c_uint64) for name in ("major", "minor", "patch", "maintenance")),
        ("detail", ctypes.c_char * 128),
        ("git_hash", ctypes.c_char * 64),
    )


def runtime_version(libraries: tuple[str, ...] = LIBRARIES) -> str | None:
    """The version of the runtime library, aws-neuronx-runtime-lib, by its own nrt_get_version."""
    for library in libraries:
        version = _Version()
        try:
            status = ctypes.CDLL(library).nrt_get_version(
                ctypes.byref(version), ctypes.c_size_t(ctypes.sizeof(version))
            )
        except (OSError, AttributeError):
            continue
        if status == 0:
            return ".".join(str(getattr(version, name)) for name in ("major", "minor", "patch", "maintenance"))
    return None


def _devices() -> tuple[tuple[Device, ...] | None, str]:
    """What `neuron-ls -j` lists, and what it says when it lists nothing."""
    tool = shutil.which("neuron-ls") or shutil.which("neuron-ls", path=str(TOOLS))
    if tool is None:
        return None, ""
    try:
        done = subprocess.run([tool, "-j"], capture_output=True, text=True, timeout=60, check=False)
        if done.returncode == 0:
            return parse_devices(done.stdout), "an empty list"
    except (OSError, ValueError, subprocess.TimeoutExpired):
        return None, ""
    # It fails where there is no device, and for other reasons; a device has a file of its own.
    lines = (done.stderr or done.stdout).strip().splitlines()
    return (None, "") if any(DEVICES.glob("neuron[0-9]*")) else ((), lines[-1] if lines else "nothing")


def parse_devices(text: str) -> tuple[Device, ...]:
    """The devices in the output of `neuron-ls -j`; ValueError when it has another form."""
    found: list[Device] = []
    document = json.loads(text)
    try:
        for entry in _entries(document):
            first = sum(len(device.cores) for device in found)
            cores = entry.get("neuroncore_ids") or range(first, first + int(entry["nc_count"]))
            processes = tuple(_process(process) for process in entry.get("neuron_processes") or [])
            found.append(Device(tuple(int(core) for core in cores), processes))
    except (AttributeError, KeyError, StopIteration, TypeError) as error:
        raise ValueError("not the list that neuron-ls prints") from error
    return tuple(found)


def _entries(document: Any) -> list[dict[str, Any]]:
    """The chips: a list up to SDK 2.33, and from 2.34 on a list under some key of an object."""
    if not isinstance(document, dict):
        return document or []
    lists = [one for one in document.values() if isinstance(one, list)]
    # No list at all is another document; lists that are all empty are a host without chips.
    return next(one for one in lists if one and "nc_count" in one[0]) if not lists or any(lists) else []


def _process(entry: dict[str, Any]) -> Process:
    return Process(int(entry["pid"]), str(entry.get("command") or ""), entry.get("neuron_runtime_version") or None)

"""What is read of a host: the list of neuron-ls in every form it takes, and versions, none of which may be there."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from serve.runtime.neuron import host
from serve.runtime.neuron.host import (
    Device,
    Host,
    Process,
    driver_version,
    package_version,
    parse_devices,
    runtime_version,
)

# The example of the neuron-ls user guide, shortened to two devices of two cores.
GUIDE: list[dict[str, Any]] = [
    {
        "neuron_device": 0,
        "bdf": "cc:00.0",
        "cpu_affinity": "0-3",
        "numa_node": "0",
        "connected_to": [1],
        "nc_count": 2,
        "memory_size": 34359738368,
        "neuroncore_ids": [0, 1],
        "neuron_processes": [
            {"pid": 113985, "command": "neuron-bench exec --run", "neuron_runtime_version": "2.30.51.0"}
        ],
    },
    {
        "neuron_device": 1,
        "bdf": "f7:00.0",
        "connected_to": None,
        "nc_count": 2,
        "memory_size": 34359738368,
        "neuroncore_ids": [2, 3],
        "neuron_processes": [],
    },
]


def test_the_guides_example_is_read() -> None:
    first, second = parse_devices(json.dumps(GUIDE))
    assert first == Device((0, 1), (Process(113985, "neuron-bench exec --run", "2.30.51.0"),))
    assert second == Device((2, 3))
    assert str(first.processes[0]) == "pid 113985 (neuron-bench exec --run)"


def test_releases_without_core_numbers_or_processes_are_read() -> None:
    entries = [{"neuron_device": n, "nc_count": 2, "neuron_processes": None} for n in range(2)]
    assert [device.cores for device in parse_devices(json.dumps(entries))] == [(0, 1), (2, 3)]
    assert parse_devices("[]") == parse_devices("null") == ()


@pytest.mark.parametrize("text", ["", "neuron-ls 2.26", '{"a": 1}', "[1]", '[{"nc_count": null}]', "3"])
def test_another_form_is_no_list(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        parse_devices(text)


def tool(folder: Path, monkeypatch: pytest.MonkeyPatch, body: str) -> None:
    """Make a neuron-ls that runs `body` the only one."""
    path = folder / "bin" / "neuron-ls"
    path.parent.mkdir()
    path.write_text(f"#!{sys.executable}\nimport sys, time\n{body}\n")
    path.chmod(0o755)
    monkeypatch.setenv("PATH", str(path.parent))
    monkeypatch.setattr(host, "DEVICES", folder / "dev")


def test_devices_come_from_the_tool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tool(tmp_path, monkeypatch, f"assert sys.argv[1:] == ['-j']\nprint({json.dumps(GUIDE)!r})")
    assert Host.read().devices == parse_devices(json.dumps(GUIDE))


def test_a_host_without_devices_is_told_from_a_tool_that_failed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tool(tmp_path, monkeypatch, "print('trying', file=sys.stderr)\nsys.exit('no driver')")
    assert (Host.read().devices, Host.read().said) == ((), "no driver")
    (tmp_path / "dev").mkdir()
    (tmp_path / "dev" / "neuron0").touch()
    assert Host.read().devices is None


def test_an_empty_list_is_no_device(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tool(tmp_path, monkeypatch, "print('[]')")
    assert (Host.read().devices, Host.read().said) == ((), "an empty list")


def test_without_the_tool_devices_are_unknown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(host, "TOOLS", tmp_path)
    assert Host.read().devices is None
    tool(tmp_path, monkeypatch, "print('no json')")
    assert Host.read().devices is None


def test_the_tool_is_found_where_the_packages_put_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tool(tmp_path, monkeypatch, "print('[{\"nc_count\": 2}]')")
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(host, "TOOLS", tmp_path / "bin")
    assert Host.read().devices == (Device((0, 1)),)


def test_own_processes_are_no_others() -> None:
    own, other = Process(os.getpid(), "me", "2.30.51"), Process(7, "other", "2.29.0")
    both = Host((Device((0, 1), (own, other)), Device((2, 3), (other,))))
    assert both.others() == (other,)
    assert both.own_runtime() == "2.30.51"
    assert Host((Device((0, 1), (other,)),)).own_runtime() is None
    # The guide shows this number for every process of every release.
    assert Host((Device((0, 1), (Process(os.getpid(), "me", "2.0.0"),)),)).own_runtime() is None


def test_versions_that_are_not_there_are_unknown(tmp_path: Path) -> None:
    assert driver_version(tmp_path / "version") is None
    assert runtime_version(("libnothing-of-that-name.so",)) is None
    assert runtime_version(("libc.so.6",)) is None
    assert package_version("no-such-package") is None


def test_versions_that_are_there_are_read(tmp_path: Path) -> None:
    (tmp_path / "version").write_text("2.26.10.0\n")
    assert driver_version(tmp_path / "version") == "2.26.10.0"
    package = tmp_path / "site" / "torch_neuronx-2.8.0.2.12.22436+0f1dac25.dist-info"
    package.mkdir(parents=True)
    (package / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: torch-neuronx\nVersion: 2.8.0.2.12.22436+0f1dac25\n"
    )
    code = "from serve.runtime.neuron.host import package_version; print(package_version('torch-neuronx'))"
    environment = os.environ | {"PYTHONPATH": f"{package.parent}:{Path.cwd()}"}
    made = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert made.stdout.strip() == "2.8.0.2.12.22436+0f1dac25"


def test_the_runtime_library_says_its_version(tmp_path: Path) -> None:
    source, library = tmp_path / "nrt.c", tmp_path / "libnrt.so"
    # The structure of nrt_version.h.
    source.write_text("""
        #include <stdint.h>
        #include <stddef.h>
        struct version { uint64_t major, minor, patch, maintenance; char detail[128]; char hash[64]; };
        int nrt_get_version(struct version *v, size_t size) {
            if (size != sizeof *v) return 2;
            v->major = 2; v->minor = 30; v->patch = 51; v->maintenance = 0;
            return 0;
        }
    """)
    try:
        subprocess.run(["cc", "-shared", "-fPIC", "-o", str(library), str(source)], check=True)
    except FileNotFoundError:
        pytest.skip("no C compiler")
    assert runtime_version((str(library),)) == "2.30.51.0"


def test_the_object_that_later_tools_print_has_the_same_chips() -> None:
    chip = {"neuron_device": 0, "nc_count": 2, "neuron_processes": []}
    assert parse_devices(json.dumps({"mlas": [], "devices": [chip]})) == parse_devices(json.dumps([chip]))
    with pytest.raises(ValueError, match="not the list"):
        parse_devices(json.dumps({"devices": [{"other": 1}]}))

"""Facts of a Neuron host from programs that a test makes up; what cannot be told is None."""

from __future__ import annotations

import json

import pytest

from recipes.doctor import host
from recipes.doctor.host import Holder
from tests.recipes.doctor.conftest import Program

_CHIP = {"neuron_device": 0, "nc_count": 2, "memory_size": 34_359_738_368, "neuron_processes": []}
_BUSY = _CHIP | {"neuron_processes": [{"pid": 7, "command": "python serve", "neuron_runtime_version": "2.30"}]}


def test_chips_cores_and_who_holds_them(program: Program) -> None:
    program("neuron-ls", f"[ \"$1\" = --json-output ] && echo '{json.dumps([_CHIP, _BUSY])}'")
    found = host.devices()
    assert (found.chips, found.cores, found.holders) == (2, 4, (Holder(7, "python serve"),))
    assert json.loads(json.dumps(found.as_json()))["holders"] == [{"pid": 7, "command": "python serve"}]


def test_the_form_of_later_tools_is_read_as_well(program: Program) -> None:
    document = {"instance_type": "inf2.xlarge", "neuron_devices": [_CHIP]}
    program("neuron-ls", f"echo '{json.dumps(document)}'")
    assert (host.devices().chips, host.devices().cores) == (1, 2)


@pytest.mark.parametrize(
    ("script", "said"),
    [
        ("echo 'no driver' >&2; exit 1", "neuron-ls says: no driver"),
        ("echo '[]'", "neuron-ls says: []"),
        ("echo 'no JSON'", "neuron-ls says: no JSON"),
        ("echo '[{\"bdf\": 1}]'", 'neuron-ls says: [{"bdf": 1}]'),
        ("true", "neuron-ls says: nothing"),
    ],
)
def test_what_it_says_instead_is_the_problem(program: Program, script: str, said: str) -> None:
    program("neuron-ls", script)
    assert (host.devices().cores, host.devices().problem) == (None, said)


def test_versions_as_the_package_manager_tells_them(program: Program) -> None:
    program("dpkg-query", '[ "$3" = aws-neuronx-runtime-lib ] && echo 2.30.51.0-faafe26f0')
    program("modinfo", "echo 2.26.10.0")
    assert host.runtime() == "2.30.51.0-faafe26f0" and host.driver() == "2.26.10.0"
    assert host.package("aws-neuronx-collectives") is None


def test_what_nothing_tells_is_none(program: Program) -> None:
    for name in ("dpkg-query", "rpm", "modinfo"):
        program(name, "exit 1")
    assert (host.runtime(), host.driver(), host.package("aws-neuronx-tools")) == (None, None, None)


def test_the_compilers_version_and_what_it_says_instead(program: Program) -> None:
    program("neuronx-cc", "echo 'NeuronX Compiler version 2.23.6484.0+3b612583'; echo 'Python version 3.11.9'; touch x")
    assert host.compiler()[0] == "2.23.6484.0+3b612583"
    program("neuronx-cc", "echo 'cannot import islpy' >&2; exit 1")
    assert host.compiler() == (None, "cannot import islpy")

"""What the SDK says it is: asked in a child, and refused when it is none."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from config.sdk import PINS, foreign
from ledger.errors import BadInput
from recipes.neuron import versions
from recipes.neuron.versions import installed
from tests.standins import environment as standins

TRACE = {"torch-neuronx", "libneuronxla", "neuronx-cc"}
Sdk = Callable[..., None]


@pytest.fixture
def sdk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Sdk:
    """Make an SDK of its own on PYTHONPATH and PATH: modules by name with their text, and what the compiler prints."""
    installed.cache_clear()

    def make(modules: dict[str, str], compiler: str | None = "NeuronX Compiler version 2.23.6484.0+3b612583") -> None:
        for name, text in modules.items():
            path = tmp_path / "site" / f"{name}.py"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        (tmp_path / "bin").mkdir()
        if compiler is not None:
            program = tmp_path / "bin/neuronx-cc"
            program.write_text(f"#!{sys.executable}\nprint('''{compiler}\\nPython version 3.11.9''')\n")
            program.chmod(0o755)
        monkeypatch.setenv("PYTHONPATH", str(tmp_path / "site"))
        monkeypatch.setenv("PATH", str(tmp_path / "bin"))

    return make


REAL = {"torch_neuronx": "__version__ = '2.8.0.2.12.22436+abcdef12'\ndef trace(): ...\n"}


def _refusal(builder: str) -> str:
    with pytest.raises(BadInput) as caught:
        installed(builder)
    return str(caught.value)


@pytest.mark.parametrize(
    ("builder", "packages"),
    [("trace", TRACE), ("nxd", {*TRACE, "neuronx-distributed"}), ("parallel", {*TRACE, "neuronx-distributed"})],
)
def test_the_stand_ins_are_what_they_say(builder: str, packages: set[str], monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in standins().items():
        monkeypatch.setenv(name, value)
    installed.cache_clear()
    found = installed(builder)
    assert found == {package: f"{PINS[package]}+standin" for package in packages}
    assert str(foreign(found)).endswith("the build that AWS released with SDK 2.28")


def test_a_module_says_its_version_before_pip_does(sdk: Sdk) -> None:
    sdk(REAL)
    found = installed("trace")
    assert found["torch-neuronx"] == "2.8.0.2.12.22436+abcdef12"
    assert found["neuronx-cc"] == "2.23.6484.0+3b612583"
    # Not known here, which is no reason to refuse a build: the package gate asks for AWS's own.
    assert found["libneuronxla"] == "unknown"
    assert "libneuronxla is unknown" in str(foreign(found))


def test_an_absent_package_is_named_with_what_is_accepted(sdk: Sdk) -> None:
    sdk({})
    pin = f"accepted: {PINS['torch-neuronx']} of SDK 2.28 from {versions.SOURCE}"
    assert _refusal("trace") == f"torch-neuronx is not installed; {pin}"


def test_distributed_is_only_asked_for_where_it_is_used(sdk: Sdk) -> None:
    sdk(REAL)
    assert "neuronx-distributed" not in installed("trace")
    assert _refusal("nxd").startswith("neuronx-distributed is not installed; accepted: 0.17.26814")


def test_a_placeholder_is_no_sdk(sdk: Sdk) -> None:
    sdk(REAL | {"torch_neuronx": "__version__ = '0.0.1'\n"})
    assert _refusal("trace").startswith("torch-neuronx 0.0.1 has no trace: it is a placeholder of that name; accepted:")


def test_a_placeholder_of_distributed_is_none_either(sdk: Sdk) -> None:
    sdk(REAL | {"neuronx_distributed/__init__": "__version__ = '0.0.0'\n"})
    assert _refusal("nxd").startswith("neuronx-distributed 0.0.0 has no ModelBuilder: it is a placeholder")


def test_a_package_that_cannot_be_imported_is_quoted(sdk: Sdk) -> None:
    sdk({"torch_neuronx": "import libneuronpjrt_of_nobody\n"})
    assert "torch_neuronx cannot be imported (No module named 'libneuronpjrt_of_nobody')" in _refusal("trace")
    installed.cache_clear()


def test_a_crash_of_the_sdk_is_one_sentence(sdk: Sdk) -> None:
    sdk({"torch_neuronx": "raise ZeroDivisionError('by itself')\n"})
    said = _refusal("trace")
    assert said.startswith("the Neuron SDK cannot be imported (ZeroDivisionError: by itself); accepted: SDK 2.28")


def test_an_absent_compiler_is_named(sdk: Sdk) -> None:
    sdk(REAL, compiler=None)
    assert _refusal("trace").startswith("neuronx-cc cannot be run (No such file or directory); accepted: 2.23.6484.0")


def test_a_compiler_without_a_version_is_unknown_and_makes_no_release(sdk: Sdk) -> None:
    sdk(REAL, compiler="nothing here")
    found = installed("trace")
    assert found["neuronx-cc"] == "unknown"
    assert "is unknown; accepted: " in str(foreign({"neuronx-cc": found["neuronx-cc"]}))


@pytest.mark.parametrize(
    "said", ["2.23.6484.0+fake", "neuronx-cc 2.23.6484.0+fake", "neuronx-cc, version 2.23.6484.0+fake"]
)
def test_a_version_is_found_in_whatever_words(sdk: Sdk, said: str) -> None:
    sdk(REAL, compiler=said)
    assert installed("trace")["neuronx-cc"] == "2.23.6484.0+fake"


def test_an_sdk_that_talks_is_understood(sdk: Sdk) -> None:
    talks = "import atexit\nprint('hello')\natexit.register(print, 'bye', 7)\n"
    sdk({"torch_neuronx": talks + REAL["torch_neuronx"]})
    assert installed("trace")["torch-neuronx"] == "2.8.0.2.12.22436+abcdef12"


@pytest.mark.parametrize("said", ["no version", "NeuronX Compiler version 2.23.6484.0"])
def test_a_compiler_that_prints_bytes_is_unknown_or_understood(sdk: Sdk, tmp_path: Path, said: str) -> None:
    sdk(REAL)
    (tmp_path / "bin/neuronx-cc").write_text(f"#!/bin/sh\nprintf '{said}\\n\\377\\376\\n'\n")
    if said == "no version":
        assert installed("trace")["neuronx-cc"] == "unknown"
    else:
        assert installed("trace")["neuronx-cc"] == "2.23.6484.0"

"""What is refused before anything is loaded, and that what is unknown is not."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from serve.errors import ServeError
from serve.runtime.neuron.checks import check_choice, check_cores, check_driver, check_runtime, check_version, imported
from serve.runtime.neuron.host import Device, Host, Process
from tests.serve.neuron.fakes import VERSIONS


def serving(site: Path) -> subprocess.CompletedProcess[str]:
    """torch-neuronx as a process finds it in `site`."""
    code = (
        "from serve.runtime.neuron.checks import imported\n"
        f"imported('torch-neuronx', 'torch_neuronx', 'trace', {VERSIONS!r})\n"
    )
    environment = os.environ | {"PYTHONPATH": f"{site}:{Path.cwd()}"}
    return subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False)


def install(site: Path, recorded: str | None, module: str | None) -> None:
    """A package torch-neuronx, recorded with a version or not, whose module has this source."""
    if recorded is not None:
        info = site / f"torch_neuronx-{recorded}.dist-info"
        info.mkdir(parents=True)
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: torch-neuronx\nVersion: {recorded}\n")
    if module is not None:
        (site / "torch_neuronx").mkdir(parents=True)
        (site / "torch_neuronx" / "__init__.py").write_text(module)


# What PyPI has under the name: version 1.0, whose import raises this.
PLACEHOLDER = 'raise ImportError("WRONG PACKAGE. Use ours.")'
PIN, REAL = "2.8.0.2.12.22436", "def trace(): ...\n"


@pytest.mark.parametrize(
    ("recorded", "module", "sentence"),
    [
        (None, None, f"torch-neuronx is not installed; accepted: {PIN} of https://pip.repos.neuron"),
        ("1.0", PLACEHOLDER, f"torch-neuronx 1.0 cannot be imported (WRONG PACKAGE. Use ours.); accepted: {PIN}"),
        ("1.0", None, f"torch-neuronx 1.0 has no module torch_neuronx; accepted: {PIN}"),
        (None, "", f"torch-neuronx has no trace, so it is another package of that name; accepted: {PIN}"),
        (None, "import of_none", "torch-neuronx cannot be imported (No module named 'of_none'); accepted"),
        (
            PIN,
            "def def",
            f"torch-neuronx {PIN} cannot be imported (SyntaxError: invalid syntax (__init__.py, line 1)); ",
        ),
        (None, "{}['key']", "torch-neuronx cannot be imported (KeyError: 'key'); accepted"),
        (PIN, "open('/no such library')", f"torch-neuronx {PIN} cannot be imported ([Errno 2] No such file"),
        ("2.9.0.2.12.22436+0f1dac25", REAL, f"torch-neuronx is 2.9.0.2.12.22436+0f1dac25; accepted: {PIN}"),
        (None, REAL + "__version__ = '2.7.0'", f"torch-neuronx is 2.7.0; accepted: {PIN}"),
        (PIN, REAL + "__version__ = '2.7.0'", f"torch-neuronx is 2.7.0; accepted: {PIN}"),
    ],
)
def test_the_package_must_be_the_one_it_was_built_with(
    tmp_path: Path, recorded: str | None, module: str | None, sentence: str
) -> None:
    install(tmp_path, recorded, module)
    assert f"ServeError: {sentence}" in serving(tmp_path).stderr


@pytest.mark.parametrize(
    ("recorded", "said"),
    [(f"{PIN}+0f1dac25", None), (None, f"{PIN}+standin"), (None, None), ("1.0", PIN), (PIN, "")],
)
def test_what_is_of_the_release_or_says_nothing_is_accepted(
    tmp_path: Path, recorded: str | None, said: str | None
) -> None:
    install(tmp_path, recorded, REAL + (f"__version__ = {said!r}" if said is not None else ""))
    assert not serving(tmp_path).stderr


@pytest.mark.parametrize(
    ("wanted", "origin"),
    [
        (PIN, f"{PIN} of https://pip.repos.neuron.amazonaws.com"),
        (f"{PIN}+0f1dac25", f"{PIN}+0f1dac25 of https://pip.repos.neuron.amazonaws.com"),
        (f"{PIN}+standin", f"{PIN}+standin"),
    ],
)
def test_the_index_is_named_for_what_it_has(wanted: str, origin: str) -> None:
    with pytest.raises(ServeError) as refused:
        check_version("torch-neuronx", "1.0", {"torch-neuronx": wanted})
    assert str(refused.value) == f"torch-neuronx is 1.0; accepted: {origin}, which the artifact was built with"
    with pytest.raises(ServeError) as refused:
        imported("no-such-package", "no_such_package", "trace", {"no-such-package": wanted})
    assert str(refused.value) == f"no-such-package is not installed; accepted: {origin}"


def test_a_version_that_the_builder_did_not_know_is_no_obstacle() -> None:
    check_version("torch-neuronx", "3.0", {"torch-neuronx": "unknown"})
    check_version("torch-neuronx", "3.0", {})


@pytest.mark.parametrize("found", [None, "2.26", "2.26.10.0", "2.27.4.0", "2.100.1", "3.0", "unreadable"])
def test_drivers_from_the_lowest_on_are_accepted(found: str | None) -> None:
    check_driver(found, VERSIONS)
    check_driver("1.0.0", {})


@pytest.mark.parametrize("found", ["2.25.4.0", "1.99", "2.3.0"])
def test_an_older_driver_is_refused(found: str) -> None:
    with pytest.raises(ServeError, match=rf"aws-neuronx-dkms\) is {found}; accepted: 2\.26 or later"):
        check_driver(found, VERSIONS)


@pytest.mark.parametrize("found", [None, "2.30.51.0", "2.30.51.0-faafe26f0", "unreadable"])
def test_the_runtime_it_was_built_for_is_accepted(found: str | None) -> None:
    check_runtime(found, VERSIONS)
    check_runtime("1.0.0", {})


@pytest.mark.parametrize("found", ["2.31.24.0", "2.29.40.0", "3.30.0"])
def test_another_runtime_is_refused(found: str) -> None:
    with pytest.raises(ServeError, match=rf"aws-neuronx-runtime-lib\) is {found}; accepted: 2\.30$"):
        check_runtime(found, VERSIONS)


A, B, OWN = Process(11, "x"), Process(12, ""), Process(os.getpid(), "this")


@pytest.mark.parametrize(
    ("devices", "tp", "visible"),
    [
        (None, 8, None),
        ([Device((0, 1))], 2, None),
        ([Device((0, 1), (OWN,))], 2, None),
        # Another process is on the device: with one core or with both, which the SDK will say.
        ([Device((0, 1), (A,))], 1, None),
        ([Device((0, 1), (A, A))], 1, None),
        ([Device((0, 1), (A, B)), Device((2, 3))], 2, None),
        ([Device((0, 1), (A, B)), Device((2, 3))], 1, {3}),
        ([Device((0, 1)), Device((2, 3))], 4, {0, 1, 2, 3}),
    ],
)
def test_cores_that_may_be_free_are_accepted(devices: list[Device] | None, tp: int, visible: set[int] | None) -> None:
    check_cores(Host(None if devices is None else tuple(devices)), tp, None if visible is None else frozenset(visible))


@pytest.mark.parametrize(
    ("devices", "tp", "visible", "sentence"),
    [
        ([Device((0, 1), (A, B))], 1, None, "0 of this host's 2 NeuronCores are free, held by pid 11 (x), pid 12 ("),
        ([Device((0, 1), (A,))], 2, None, "1 of this host's 2 NeuronCores are free, held by pid 11 (x); accepted: 2"),
        ([Device((0, 1))], 4, None, "2 of this host's 2 NeuronCores are free; accepted: 4 or more"),
        (
            [Device((0, 1), (A, B)), Device((2, 3))],
            1,
            {0, 1},
            "0 of this host's 2 NeuronCores among 0,1 are free, held",
        ),
    ],
)
def test_cores_that_cannot_be_free_are_refused(
    devices: list[Device], tp: int, visible: set[int] | None, sentence: str
) -> None:
    with pytest.raises(ServeError) as refused:
        check_cores(Host(tuple(devices)), tp, None if visible is None else frozenset(visible))
    assert str(refused.value).startswith(sentence)


ONE_CHIP, NUMBER, LIST = Host((Device((0, 1)),)), "NEURON_RT_NUM_CORES", "NEURON_RT_VISIBLE_CORES"


@pytest.mark.parametrize(
    ("host", "chosen", "sentence"),
    [
        (ONE_CHIP, {NUMBER: "9"}, f"{NUMBER}: found 9; accepted: 1 to 2, as this host has 2"),
        (ONE_CHIP, {LIST: "7"}, f"{LIST}: found 7; accepted: 0 to 1, this host's NeuronCores"),
        (ONE_CHIP, {LIST: "1-2", NUMBER: "1"}, f"{LIST}: found 1-2; accepted: 0 to 1, this host's NeuronCores"),
    ],
)
def test_a_choice_beyond_the_host_is_refused_by_its_name(host: Host, chosen: dict[str, str], sentence: str) -> None:
    with pytest.raises(ServeError) as refused:
        check_choice(host, 1, chosen)
    assert str(refused.value) == sentence


@pytest.mark.parametrize(
    ("host", "tp", "chosen"),
    [
        (ONE_CHIP, 1, {}),
        (ONE_CHIP, 1, {NUMBER: "2"}),
        (ONE_CHIP, 1, {NUMBER: "0"}),
        (ONE_CHIP, 1, {LIST: "0-1", NUMBER: "9"}),  # the list wins
        (ONE_CHIP, 4, {NUMBER: "4"}),  # the artifact's need, of which check_cores speaks
        (Host(None), 1, {NUMBER: "9", LIST: "7"}),
        (Host(()), 1, {NUMBER: "9"}),
    ],
)
def test_a_choice_that_the_host_may_have_is_accepted(host: Host, tp: int, chosen: dict[str, str]) -> None:
    check_choice(host, tp, chosen)


def test_a_host_without_devices_is_refused() -> None:
    with pytest.raises(ServeError, match=r"no Neuron device \(neuron-ls says: no driver\); accepted: 2 free cores"):
        check_cores(Host((), said="no driver"), 2, None)


def test_sentences_are_one_line() -> None:
    host: Any = Host((Device((0,), (Process(1, "python"),)),))
    with pytest.raises(ServeError) as refused:
        check_cores(host, 1, None)
    assert "\n" not in str(refused.value)

"""Hosts and artifacts that do not fit, on the stand-ins' SDK: one sentence each, and nobody answers garbage."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.serve.neuron.conftest import NeuronArtifactOf
from tests.serve.neuron.serving import answers, served
from tests.standins import HERE

Host = dict[str, str]
PIN = "2.8.0.2.12.22436"


@pytest.fixture
def artifact(neuron_artifact_of: NeuronArtifactOf) -> Path:
    """One core, state on the device."""
    return neuron_artifact_of("trace", "device")


def refused(artifact: Path, host: Host) -> str:
    """The sentence that a server on that host refuses the artifact with."""
    done = served(artifact, [[2, 3]], host, count=1)
    assert done.returncode == 2, done.stdout + done.stderr
    sentence = done.stderr.splitlines()[-1]
    assert sentence.startswith("ServeError: ")
    return sentence.removeprefix("ServeError: ")


@contextmanager
def holding(cores: int, host: Host) -> Iterator[int]:
    """Another process that holds so many cores of that host; yields its pid."""
    code = "import torch_neuronx, neuron_standin.runtime as r; r.init(); print('held', flush=True); input()"
    holder = subprocess.Popen(
        [sys.executable, "-c", code],
        env=host | {"NEURON_RT_NUM_CORES": str(cores)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert holder.stdout is not None
    assert holder.stdout.readline() == "held\n"
    try:
        yield holder.pid
    finally:
        holder.communicate("\n")


def without_neuron_ls(host: Host, folder: Path) -> Host:
    """The host with the SDK's other programs only."""
    shutil.copytree(HERE / "bin", folder / "bin")
    (folder / "bin" / "neuron-ls").unlink()
    return host | {"PATH": host["PATH"].replace(str(HERE / "bin"), str(folder / "bin"))}


def test_a_host_without_devices(artifact: Path, pretended_host: Host, tmp_path: Path) -> None:
    none = pretended_host | {"STANDIN_DEVICES": "0"}
    assert "this host has no Neuron device (neuron-ls says: FATA[0000] Failed to discover" in refused(artifact, none)
    # Nobody lists the devices: it is left to the SDK.
    sentence = refused(artifact, without_neuron_ls(none, tmp_path))
    assert sentence.startswith(f"{artifact}/prefill.pt: NRT_FAILURE (1)")
    assert "no neuron device found" in sentence


def test_cores_that_others_hold(artifact: Path, pretended_host: Host, tmp_path: Path) -> None:
    with holding(2, pretended_host) as pid:
        # The list shows one process on two cores, which may hold one of them; the SDK knows that it holds both.
        sentence = refused(artifact, pretended_host)
        assert f"the NeuronCore is held by pid {pid} (" in sentence
        assert "Logical Neuron Core(s) not available - Requested:1 Available:0" in sentence
        unseen = refused(artifact, without_neuron_ls(pretended_host, tmp_path))
        assert "the NeuronCore is held by a process that neuron-ls does not show" in unseen
    with holding(1, pretended_host):
        assert served(artifact, [[2, 3]], pretended_host, count=1).returncode == 0


def test_two_ranks_beside_another_process(neuron_artifact_of: NeuronArtifactOf, pretended_host: Host) -> None:
    ranks = neuron_artifact_of("nxd", "device", tp=2, batch=3)
    with holding(1, pretended_host) as pid:
        sentence = refused(ranks, pretended_host)
        assert sentence.startswith(f"1 of this host's 2 NeuronCores are free, held by pid {pid} (")
    one = pretended_host | {"NEURON_RT_VISIBLE_CORES": "1"}
    assert refused(ranks, one).startswith("NEURON_RT_VISIBLE_CORES: found 1, 1 cores; accepted: 2 or more")


def test_cores_that_this_host_lacks(artifact: Path, pretended_host: Host) -> None:
    sentence = refused(artifact, pretended_host | {"NEURON_RT_NUM_CORES": "9"})
    assert sentence == "NEURON_RT_NUM_CORES: found 9; accepted: 1 to 2, as this host has 2"
    sentence = refused(artifact, pretended_host | {"NEURON_RT_VISIBLE_CORES": "7"})
    assert sentence == "NEURON_RT_VISIBLE_CORES: found 7; accepted: 0 to 1, this host's NeuronCores"


@contextmanager
def changed(artifact: Path, change: Callable[[dict[str, Any]], object]) -> Iterator[Path]:
    """A copy of the artifact beside it, whose manifest is changed."""
    copy = artifact.with_name(f"{artifact.name}-changed")
    shutil.copytree(artifact, copy, copy_function=os.link)
    try:
        document = json.loads((copy / "manifest.json").read_bytes())
        change(document)
        (copy / "manifest.json").unlink()
        (copy / "manifest.json").write_text(json.dumps(document))
        yield copy
    finally:
        shutil.rmtree(copy)


def test_another_sdk(artifact: Path, pretended_host: Host) -> None:
    def of(**versions: str) -> Callable[[dict[str, Any]], object]:
        return lambda document: document["neuron"]["versions"].update(versions)

    with changed(artifact, of(**{"torch-neuronx": "2.9.0.2.13.24727"})) as other:
        sentence = refused(other, pretended_host)
        assert sentence.startswith(f"torch-neuronx is {PIN}+standin; accepted: 2.9.0.2.13.24727")
    with changed(artifact, of(runtime="2.31")) as other:
        sentence = refused(other, pretended_host)
        assert sentence.startswith("the Neuron runtime (aws-neuronx-runtime-lib) is 2.30.51.0+standin; accepted: 2.31")


def test_no_sdk_and_its_placeholder(artifact: Path, pretended_host: Host, tmp_path: Path) -> None:
    sentence = refused(artifact, pretended_host | {"PYTHONPATH": ""})
    assert sentence.startswith("torch-neuronx is not installed; accepted: 2.8.0.2.12.22436")
    (tmp_path / "torch_neuronx").mkdir()
    (tmp_path / "torch_neuronx" / "__init__.py").write_text('raise ImportError("WRONG PACKAGE")\n')
    sentence = refused(artifact, pretended_host | {"PYTHONPATH": str(tmp_path)})
    assert "torch-neuronx cannot be imported (WRONG PACKAGE); accepted: 2.8.0.2.12.22436" in sentence


def test_a_second_graph_with_a_state_of_its_own(artifact: Path, pretended_host: Host) -> None:
    def twice(document: dict[str, Any]) -> None:
        document["graphs"]["decode"] = document["graphs"]["prefill"]

    with changed(artifact, twice) as other:
        assert "graphs: found decode; accepted: prefill" in refused(other, pretended_host)


def test_weights_that_the_loader_would_leave_at_zero(
    neuron_artifact_of: NeuronArtifactOf, pretended_host: Host
) -> None:
    def rename(document: dict[str, Any]) -> None:
        for graph in document["graphs"].values():
            scalar = next(p for p in graph["signature"]["parameters"] if p["name"].endswith("layer_scalar"))
            scalar["name"] += "s"

    with changed(neuron_artifact_of("nxd", "device", tp=2, batch=3), rename) as other:
        sentence = refused(other, pretended_host)
        assert "neuron.weight_keys: found no layers.0.layer_scalars; accepted: the weights of its graphs" in sentence


def test_a_file_too_many_among_the_ranks(neuron_artifact_of: NeuronArtifactOf, pretended_host: Host) -> None:
    with changed(neuron_artifact_of("parallel", "device", tp=2), lambda _: None) as other:
        (other / "prefill" / "tp_2.pt").write_bytes(b"")
        sentence = refused(other, pretended_host)
        assert "found tp_0.pt, tp_1.pt, tp_2.pt; accepted: tp_0.pt, tp_1.pt, all and only" in sentence


def test_a_file_that_is_no_graph(artifact: Path, pretended_host: Host) -> None:
    """Its digest is right: it was published so."""

    def other_file(document: dict[str, Any]) -> None:
        document["graphs"]["prefill"]["modules"] = [document["tables"]]

    with changed(artifact, other_file) as other:
        tables = json.loads((other / "manifest.json").read_bytes())["tables"]["path"]
        assert refused(other, pretended_host).startswith(f"{other / tables}: PytorchStreamReader failed")


def test_a_graph_of_another_builder(artifact: Path, neuron_artifact_of: NeuronArtifactOf, pretended_host: Host) -> None:
    def traced(document: dict[str, Any]) -> None:
        prefill = json.loads((artifact / "manifest.json").read_bytes())["graphs"]["prefill"]["modules"][0]
        prefill["path"] = str(artifact / prefill["path"])
        for graph in document["graphs"].values():
            graph["modules"] = [prefill]

    with changed(neuron_artifact_of("nxd", "device"), traced) as other:
        sentence = refused(other, pretended_host)
        assert sentence == f"{artifact}/prefill.pt: found no nxd_model; accepted: a file that ModelBuilder's model made"


def test_graphs_that_changed_places(neuron_artifact_of: NeuronArtifactOf, pretended_host: Host) -> None:
    def swapped(document: dict[str, Any]) -> None:
        prefill, decode = (document["graphs"][name] for name in ("prefill", "decode"))
        prefill["modules"], decode["modules"] = decode["modules"], prefill["modules"]

    with changed(neuron_artifact_of("trace", "host", batch=3), swapped) as other:
        sentence = refused(other, pretended_host)
        assert "the prefill graph: " in sentence
        assert "Declaration" not in sentence
        assert len(sentence) < 300


def test_names_of_weights_that_are_not_the_sdks(neuron_artifact_of: NeuronArtifactOf, pretended_host: Host) -> None:
    """Nothing tells at load; the recorded answer does."""
    honest = neuron_artifact_of("nxd", "device")
    prompt = [2, 3, 5, 7]
    recorded = json.dumps({"prompt": prompt, "tokens": answers(honest, [prompt], pretended_host, count=12)[0]})
    code = "import sys, pathlib, serve.service.start as s; s.load(pathlib.Path(sys.argv[1]), print)"

    def exchanged(document: dict[str, Any]) -> None:
        keys = document["neuron"]["weight_keys"]
        gate, up = (f"layers.0.mlp.{name}_proj.weight" for name in ("gate", "up"))
        keys[gate], keys[up] = keys[up], keys[gate]

    for change, words in ((lambda _: None, "self-check passed"), (exchanged, "ServeError: self-check: token 0")):
        with changed(honest, change) as other:
            (other / "selfcheck.json").write_text(recorded)
            command = [sys.executable, "-c", code, str(other)]
            done = subprocess.run(command, env=pretended_host, capture_output=True, text=True, check=False)
            assert words in done.stdout + done.stderr


def test_a_server_imports_what_it_needs(neuron_artifact_of: NeuronArtifactOf, pretended_host: Host) -> None:
    done = served(neuron_artifact_of("nxd", "device"), [[2, 3]], pretended_host, count=1)
    loaded = set(json.loads(done.stdout.splitlines()[-1])["modules"]) - {"transformers.utils.fx"}  # our stub
    modules = {name.partition(".")[0] for name in loaded}
    assert not modules & {"neuronx_distributed", "transformers", "recipes", "ledger", "config", "validate", "publish"}


def test_a_server_cannot_compile(pretended_host: Host, tmp_path: Path) -> None:
    code = (
        "import os, libneuronxla, serve.runtime.neuron.environment as e\n"
        "e.prepare(os.environ, 1)\n"
        "libneuronxla.neuron_xla_compile(b'', '--target inf2', use_cache=False)\n"
    )
    # The compiler leaves a log in the working directory, so that must not be this one.
    host = pretended_host | {"PYTHONPATH": f"{Path.cwd()}:{pretended_host['PYTHONPATH']}"}
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, cwd=tmp_path, env=host, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "Unrecognized argument: --compilation-is-forbidden-while-serving" in done.stderr

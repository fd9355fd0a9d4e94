"""Whole builds against the stand-ins of the SDK, each in processes of its own, and what comes of a build that fails."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from config.sdk import PINS
from ledger.errors import BadInput
from ledger.receipts import Receipt
from ledger.stage import Outcome
from ledger.store import Store
from recipes.neuron import process, stage
from recipes.neuron.versions import installed
from serve.manifest import Neuron, Signature
from serve.tensorfile import TensorFile
from tests.build import job
from tests.recipes.neuron.conftest import ReceiptsOf, recipe
from tests.recipes.steps import expected, steps
from tests.standins import environment as standins

RUNNER = Path(__file__).with_name("runner.py")
BUILDS = [("trace", "host", 1), ("trace", "device", 1), ("nxd", "device", 2), ("parallel", "device", 2)]


@pytest.fixture(autouse=True)
def sdk(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The stand-ins are what is installed, on a host of this test's own."""
    for name, value in standins().items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("STANDIN_ROOT", str(tmp_path / "standin"))
    # A build host has no device, and its shell may be set up for anything; neither may matter.
    monkeypatch.setenv("STANDIN_DEVICES", "0")
    monkeypatch.setenv("NEURON_CC_FLAGS", "--no-such-flag")
    monkeypatch.delenv("NEURON_PLATFORM_TARGET_OVERRIDE", raising=False)
    installed.cache_clear()


def build(receipts_of: ReceiptsOf, builder: str, kv: str, tp: int = 1) -> tuple[Store, dict[str, Receipt], Outcome]:
    store, receipts = receipts_of(tp)
    with pytest.MonkeyPatch.context() as shell:
        # XLA ends a process that has a flag which it does not know; graphs are lowered before.
        shell.setenv("XLA_FLAGS", "--no_such_flag=1")
        return store, receipts, stage.work(job(recipe(builder, kv, tp=tp), store, **receipts))


def run(store: Store, receipts: dict[str, Receipt], made: Outcome, model: Any, tmp_path: Path) -> list[Tensor]:
    """Logits of every step, from the files as they will ship, in a fresh process."""
    store.lay_out(made.outputs, tmp_path / "artifact")
    graphs, modules = made.facts["graphs"], made.facts["modules"]
    kv = "device" if made.facts["builder"] != "trace" or graphs == ["prefill"] else "host"
    lowered = receipts["lower"].outputs
    of = {g: Signature.model_validate(store.read_json(lowered[f"{g}.signature.json"])) for g in graphs}
    ranks = [TensorFile(store.path(ref)) for _, ref in sorted(receipts["weights"].outputs.items())]
    keys = made.facts["neuron"]["weight_keys"]
    case = {
        "builder": made.facts["builder"],
        "files": {graph: str(tmp_path / "artifact" / modules[graph][0]) for graph in graphs},
        "states_in": {g: list(of[g].named("state")) for g in graphs} if kv == "host" else {},
        "states_out": [output.name for output in of["prefill"].outputs if output.role == "state"],
        "state": {name: torch.zeros(p.shape) for name, p in of["prefill"].named("state").items()},
        "weights": [{key: torch.tensor(file[name]) for name, key in keys.items()} for file in ranks],
        "steps": [
            (graph, [inputs[name] for name in of[graph].named("input")])
            for graph, inputs in steps(model, one_graph=len(graphs) == 1)
        ],
    }
    torch.save(case, tmp_path / "case.pt")
    command = [sys.executable, str(RUNNER), str(tmp_path / "case.pt"), str(tmp_path / "result.pt")]
    env = os.environ | {"STANDIN_DEVICES": "1"}
    done = subprocess.run(command, env=env, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    logits: list[Tensor] = torch.load(tmp_path / "result.pt")
    return logits


@pytest.mark.parametrize(("builder", "kv", "tp"), BUILDS)
def test_what_is_built_is_the_library(
    builder: str,
    kv: str,
    tp: int,
    receipts_of: ReceiptsOf,
    random_model: Any,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    store, receipts, made = build(receipts_of, builder, kv, tp)
    assert made.verdict == "done", store.path(made.outputs["compiler.log"]).read_text()[-3000:]
    for found, wanted in zip(run(store, receipts, made, random_model, tmp_path), expected(random_model), strict=True):
        torch.testing.assert_close(found, wanted, rtol=0.0, atol=2e-4)

    facts, neuron = made.facts, Neuron.model_validate(made.facts["neuron"])
    names = {name for modules in facts["modules"].values() for name in modules}
    assert set(made.outputs) == {"compiler.log", *names}
    wanted_names = {
        "trace": {"prefill.pt", "decode.pt"} if kv == "host" else {"prefill.pt"},
        "nxd": {"model.pt"},
        "parallel": {f"prefill/tp_{rank}.pt" for rank in range(tp)},
    }
    assert names == wanted_names[builder]
    assert (facts["builder"], set(facts["modules"])) == (builder, set(facts["graphs"]))
    assert facts["flags"].startswith("--target inf2") and len(facts["reason"]) > 20
    assert neuron.versions["torch-neuronx"] == f"{PINS['torch-neuronx']}+standin"
    assert (neuron.sdk, neuron.versions["runtime"], neuron.versions["driver"]) == ("2.28", "2.30", "2.26")
    assert bool(neuron.weight_keys) == (builder == "nxd")
    # Nothing of the build is left behind: the compiler leaves files where it is started.
    assert list((store.root / "tmp").iterdir()) == list(Path.cwd().iterdir()) == []


def failing(
    monkeypatch: pytest.MonkeyPatch, receipts_of: ReceiptsOf, fault: str, **switches: str
) -> tuple[Store, Outcome]:
    """A trace build whose compiler fails."""
    for name, value in ({"STANDIN_NCC_FAIL": fault} | switches).items():
        monkeypatch.setenv(name, value)
    store, _, made = build(receipts_of, "trace", "device")
    return store, made


def test_a_failed_build_says_why_and_keeps_the_log(monkeypatch: pytest.MonkeyPatch, receipts_of: ReceiptsOf) -> None:
    store, made = failing(monkeypatch, receipts_of, "operator")
    assert (made.verdict, made.facts["failure"], made.facts["code"]) == ("failed", "operator", "NCC_EVRF001")
    assert "Operator injected is not supported" in made.message and "\n" not in made.message
    assert set(made.outputs) == {"compiler.log"}
    log = Path(made.message.partition("; the log is ")[2])
    assert log == store.path(made.outputs["compiler.log"]) and "NCC_EVRF001" in log.read_text()
    assert "retried" not in made.measured
    assert list((store.root / "tmp").iterdir()) == []


@pytest.mark.soak
def test_a_build_that_memory_killed_runs_once_more_alone(
    monkeypatch: pytest.MonkeyPatch, receipts_of: ReceiptsOf, random_model: Any, tmp_path: Path
) -> None:
    held: list[bool] = []

    @contextmanager
    def watched(store: Store, *, alone: bool) -> Iterator[int]:
        with process.sharing(store, alone=alone) as lock:
            held.append(alone)
            yield lock

    monkeypatch.setattr(stage, "sharing", watched)
    once = {"STANDIN_NCC_FAIL": "oom", "STANDIN_NCC_FAIL_ONCE": str(tmp_path / "failed")}
    for name, value in once.items():
        monkeypatch.setenv(name, value)
    store, receipts, made = build(receipts_of, "trace", "device")
    assert (made.verdict, held) == ("done", [False, True])
    assert made.measured["retried"].startswith("the build failed, host memory (")
    assert made.measured["retried"].endswith("; then alone, one compiler at a time")
    found = run(store, receipts, made, random_model, tmp_path)
    torch.testing.assert_close(found[-1], expected(random_model)[-1], rtol=0.0, atol=2e-4)


@pytest.mark.soak
def test_a_build_that_memory_kills_twice_has_failed(monkeypatch: pytest.MonkeyPatch, receipts_of: ReceiptsOf) -> None:
    _, made = failing(monkeypatch, receipts_of, "oom")
    assert (made.verdict, made.facts["failure"], made.facts["code"]) == ("failed", "host memory", None)
    assert "retried" in made.measured and "swap" in made.message


def test_a_trace_that_wants_a_device_says_what_builds_without(
    monkeypatch: pytest.MonkeyPatch, receipts_of: ReceiptsOf
) -> None:
    monkeypatch.setenv("STANDIN_CPU_TRACE", "needs-device")
    _, _, made = build(receipts_of, "trace", "device")
    assert (made.verdict, made.facts["failure"]) == ("failed", "no device")
    assert "with builder nxd" in made.message


def test_weights_that_do_not_fit_are_the_inputs_fault(receipts_of: ReceiptsOf) -> None:
    store, receipts = receipts_of()
    other = receipts_of(2)[1]["weights"]
    with pytest.raises(
        BadInput, match=r"rank\.onehot has no use in the graph; accepted: a tensor for each of the graph's"
    ):
        stage.work(job(recipe("trace", "device"), store, **receipts | {"weights": other}))


def test_toolchain_is_the_sdk_and_what_makes_its_input() -> None:
    found = stage.toolchain(recipe("nxd", "device"))
    assert {"torch", "torch-xla", "transformers", *PINS} <= set(found)

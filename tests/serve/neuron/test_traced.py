"""How traced graphs are called: what is passed from step to step, and what is not looked at."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
import torch

from serve.errors import ServeError
from serve.manifest import GraphName
from serve.runtime.neuron.runtime import NeuronRuntime
from serve.runtime.neuron.traced import DeviceState, HostState
from tests.serve.neuron.fakes import VOCABULARY, manifest

INPUTS = 8  # of the prefill graph; decode has no `last`


def test_host_state_goes_from_graph_to_graph_by_name() -> None:
    """Each graph adds 1 to a and 10 to b. They take a first and give b first, which shapes alone do not tell."""
    taken: list[tuple[float, ...]] = []

    def graph(*tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
        *inputs, a, b = tensors
        taken.append((len(inputs), a.item(), b.item()))
        return torch.full((1, VOCABULARY), a.item()), b + 10, a + 1

    made_for = manifest("trace", "host", states=("a", "b"), given=("b", "a"))
    runtime = NeuronRuntime(made_for, HostState({"prefill": graph, "decode": graph}, made_for))
    logits = runtime.step("decode")
    assert [counts[1:] for counts in taken] == [(0, 0), (1, 10), (2, 20)]
    assert [counts[0] for counts in taken] == [INPUTS, INPUTS - 1, INPUTS - 1]
    assert (logits == 2).all()


def test_a_graph_that_keeps_its_host_state_is_refused() -> None:
    made_for = manifest("trace", "host", states=("a",))
    stripped = HostState(dict.fromkeys(("prefill", "decode"), lambda *_: torch.zeros(1, VOCABULARY)), made_for)
    with pytest.raises(ServeError, match=r"^a graph returned 1 tensors; accepted: 2 or more"):
        NeuronRuntime(made_for, stripped)


@pytest.mark.parametrize("bare", [True, False])
def test_aliased_outputs_may_be_there_or_not(bare: bool) -> None:
    logits = torch.arange(VOCABULARY, dtype=torch.float32)[None]
    made_for = manifest("trace", states=("a",))
    runtime = NeuronRuntime(made_for, DeviceState(lambda *_: logits if bare else (logits, torch.ones(1))))
    assert (runtime.step("prefill")[0] == np.arange(VOCABULARY)).all()


def test_what_is_not_the_promised_logits_is_refused() -> None:
    with pytest.raises(ServeError, match=r"the prefill graph returned logits \[1, 3\]; accepted: \[1, 50\]"):
        NeuronRuntime(manifest("trace"), DeviceState(lambda *_: torch.zeros(1, 3)))


def test_every_graph_runs_once_before_the_runtime_is_there() -> None:
    calls: list[GraphName] = []

    def program(graph: GraphName, inputs: object) -> torch.Tensor:
        calls.append(graph)
        return torch.zeros(1, VOCABULARY, dtype=torch.bfloat16)

    runtime = NeuronRuntime(manifest("nxd"), program)
    assert calls == ["prefill", "decode"]
    assert runtime.step("decode").dtype == np.float32


def test_a_graph_reads_what_the_engine_wrote_last() -> None:
    seen: list[float] = []

    def program(graph: GraphName, inputs: Sequence[torch.Tensor]) -> torch.Tensor:
        seen.append(inputs[2].sum().item())
        return torch.zeros(1, VOCABULARY)

    runtime = NeuronRuntime(manifest("nxd"), program)
    positions = runtime.inputs("prefill")["position_ids"]
    for value in (1, 2):
        positions[...] = value
        runtime.step("prefill")
        assert runtime.inputs("prefill")["position_ids"] is positions
    assert seen == [0, 0, 4, 8]


def test_a_failing_step_says_what_the_status_means() -> None:
    failing = False

    def program(graph: GraphName, inputs: object) -> torch.Tensor:
        if failing:
            raise RuntimeError("nrt_execute failed: status=1005")
        return torch.zeros(1, VOCABULARY)

    runtime = NeuronRuntime(manifest("nxd"), program)
    failing = True
    with pytest.raises(ServeError, match=r"^the decode graph: NRT_EXEC_NC_BUSY \(1005\), the NeuronCore is busy"):
        runtime.step("decode")


def test_a_closed_runtime_lets_go_of_its_program_and_says_so() -> None:
    released: list[bool] = []

    class Held:
        def __call__(self, graph: GraphName, inputs: object) -> torch.Tensor:
            return torch.zeros(1, VOCABULARY)

        def __del__(self) -> None:
            released.append(True)

    runtime = NeuronRuntime(manifest("nxd"), Held())
    runtime.close()
    assert released
    with pytest.raises(ServeError, match="the runtime is closed"):
        runtime.step("decode")

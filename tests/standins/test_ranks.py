"""Ranks of one process that meet in an all-reduce (sections 3.1, 3.3, 3.6): groups of traces, and one SPMD program."""

from __future__ import annotations

from tests.standins.conftest import Run

START = """
import json, torch, torch_neuronx
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from neuron_standin import ops, runtime
from neuron_standin.executor import Group
from torch_neuronx.model import only_model
from torch_neuronx.xla_impl.trace import generate_hlo, generate_neff
from tests.standins.modules import Sharded
x = torch.tensor([1.0, 2.0, 3.0])

def refusal(call):
    try:
        call()
    except Exception as error:
        return f"{type(error).__name__}: {error}"

def rank_model(rank, **named):
    module = Sharded(2, rank)
    traced = torch_neuronx.trace(module, x, input_output_aliases={module.last: 1}, cpu_backend=True,
                                 compiler_args="--target inf2", compiler_workdir=f"w{rank}", **named)
    torch.jit.save(traced, f"tp_{rank}.pt")
    with torch_neuronx.contexts.disable_nrt_load():
        return torch.jit.load(f"tp_{rank}.pt")

def grouped(models):
    group = Group(len(models))
    for rank, model in enumerate(models):
        ops.join(only_model(model).neff, group, rank)
        torch_neuronx.move_trace_to_device(model, rank)
    pool = ThreadPoolExecutor(len(models))
    return lambda *inputs: [future.result() for future in [pool.submit(model, *inputs) for model in models]]
"""


def test_traces_with_their_own_weights_meet(run: Run) -> None:
    found = run(
        START
        + """
call = grouped([rank_model(0), rank_model(1)])
print(json.dumps([[one.tolist() for one in call(x)] for _ in range(2)]))
"""
    ).value
    # Weights are 1 and 2, so the sum is 3x; the state adds the sum before.
    assert found == [[[3, 6, 9]] * 2, [[6, 12, 18]] * 2]


def test_a_wrong_shape_fails_on_every_rank_and_does_not_hang(run: Run) -> None:
    found = run(
        START + "call = grouped([rank_model(0), rank_model(1)])\nprint(json.dumps(refusal(lambda: call(x[:2]))))"
    )
    assert "received [2], expected [3]" in found.value


def test_a_model_with_collectives_does_not_load_alone(run: Run) -> None:
    found = run(START + "rank_model(0)\nprint(json.dumps(refusal(lambda: torch.jit.load('tp_0.pt'))))").value
    assert "the NEFF has collectives and was loaded without them" in found


def test_a_rank_needs_a_core(run: Run) -> None:
    code = START + "print(json.dumps(refusal(lambda: grouped([rank_model(0), rank_model(1)]))))"
    assert "the model needs cores 1 to 1, this process has 1" in run(code, NEURON_RT_NUM_CORES="1").value


SPMD = (
    START
    + """
class Holder(torch.nn.Module):
    def __init__(self, neff, metaneff):
        super().__init__()
        self.register_buffer("graph", ops.bytes_tensor(neff))
        self.register_buffer("table", ops.bytes_tensor(metaneff.SerializeToString()))
        self.weights = [{"": torch.zeros(1)}]
        self.states = [{"": torch.zeros(1)}]

    @torch.jit.export
    def initialize(self, weights: list[dict[str, torch.Tensor]], states: list[dict[str, torch.Tensor]]):
        self.weights = torch.ops.neuron._parallel_load(weights)
        self.states = torch.ops.neuron._parallel_load(states)

    def forward(self, inputs: list[torch.Tensor]) -> list[torch.Tensor]:
        return torch.ops.neuron.spmd_forward(self.graph, self.table, inputs, self.weights, self.states, 2)

module = Sharded(2)
artifacts = generate_hlo(module, (x,), {module.last: 1}, cpu_backend=True)
neff = generate_neff(artifacts, "w", "--target inf2")
torch.jit.save(torch.jit.script(Holder(Path(neff.neff_filename).read_bytes(), artifacts.metaneff)), "model.pt")
model = torch.jit.load("model.pt")
weights = [{"weight": torch.full((3,), 1.0 + rank)} for rank in range(2)]
zeros = [{"last": torch.zeros(3)} for rank in range(2)]
"""
)


def test_one_program_with_weights_by_name_and_shared_state(run: Run) -> None:
    found = run(
        SPMD
        + """
model.initialize(weights, zeros)
results = [[one.tolist() for one in model([x])] for _ in range(2)]
states = [row["last"].tolist() for row in model.states]
again = torch.jit.load("model.pt")
again.initialize(weights, zeros)
print(json.dumps([results, states, [one.tolist() for one in again([x])], zeros[0]["last"].tolist()]))
"""
    ).value
    assert found == [[[[3, 6, 9]], [[6, 12, 18]]], [[6, 12, 18]] * 2, [[3, 6, 9]], [0, 0, 0]]


def test_what_an_spmd_program_refuses(run: Run) -> None:
    found = run(
        SPMD
        + """
model.initialize([{"weight": torch.ones(3)}, {}], zeros)
missing = refusal(lambda: model([x]))
model.initialize([{"weight": torch.ones(2)}] * 2, zeros)
wrong = refusal(lambda: model([x]))
model.initialize(weights, zeros)
print(json.dumps([missing, wrong, refusal(lambda: model([x.to(torch.bfloat16)])), refusal(lambda: model([x, x]))]))
"""
    ).value
    assert "weight 'weight' of rank 1 was not given" in found[0]
    assert "Incorrect weight weight: received float32[2], expected float32[3]" in found[1]
    assert "received bfloat16, expected float32" in found[2]
    assert "received 2, expected 1" in found[3]


def test_ranks_whose_graphs_differ_are_refused(run: Run) -> None:
    found = run(
        START
        + """
class Frozen(Sharded):
    def __init__(self, rank):
        super().__init__(2, rank)
        self.rank = rank
    def forward(self, x):
        total, state = super().forward(x + float(self.rank))
        return total, state
def frozen(rank):
    module = Frozen(rank)
    with torch_neuronx.contexts.disable_nrt_load():
        return torch_neuronx.trace(module, x, input_output_aliases={module.last: 1}, cpu_backend=True,
                                   compiler_args="--target inf2", compiler_workdir=f"w{rank}")
print(json.dumps(refusal(lambda: grouped([frozen(0), frozen(1)])(x))))
"""
    ).value
    assert "differ" in found or "a rank of the collective did not run" in found

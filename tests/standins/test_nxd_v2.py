"""ModelBuilderV2 and NxDModel of the stand-ins against section 3.4 of the SDK document. About 5 s."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.standins.nxd_run import settings
from tests.standins.subjects import Subjects

CODE = """
import json, sys, types
stub = types.ModuleType("transformers.utils.fx")
stub.HFTracer = object
sys.modules["transformers.utils.fx"] = stub
import torch
import neuronx_distributed as nxd
from neuronx_distributed.parallel_layers import mappings
from torch import nn

class Summing(nn.Module):
    # `total` is assigned, so it is a state; `offset` is not, so it is a constant.
    def __init__(self):
        super().__init__()
        self.register_buffer("total", torch.full((2,), 7.0))
        self.register_buffer("offset", torch.full((2,), 3.0))
        self.weight = nn.Parameter(torch.zeros(2))

    def forward(self, x):
        self.total = self.total + x.sum(0)
        return {"y": mappings.reduce_from_tensor_model_parallel_region(self.total * self.weight) + self.offset}

class Shrinking(Summing):
    def forward(self, x):
        self.total = self.total[:1]
        return x

def refusal(call):
    try:
        call()
    except Exception as error:
        return f"{type(error).__name__}: {error}"

def rows(value, count=1):
    return torch.full((count, 2), float(value))

with nxd.NxDParallelState(world_size=2, tensor_model_parallel_size=2):
    module = Summing()
    builder = nxd.ModelBuilder(module).trace(kwargs={"x": rows(0)}, tag="one").trace(args=rows(0, 3), tag="three")
    model = builder.compile(compiler_workdir="work", compiler_args="--target inf2")
    facts = {
        "buffers": [module.total.tolist(), sorted(dict(module.named_buffers())), type(module).__name__],
        "shrinking": refusal(lambda: nxd.ModelBuilder(Shrinking()).trace(rows(0))),
        "unnamed": refusal(lambda: nxd.ModelBuilder(nn.Sequential(nn.Linear(2, 2))).trace(kwargs={"y": rows(0)})),
    }
facts["before"] = [refusal(lambda: model(rows(1))), refusal(lambda: model.read_from_neuron_buffer("total", 0))]
# Rank r multiplies by 10 ** r: digits tell the ranks apart.
model.set_weights([{"weight": rows(10**rank)[0], "offset": rows(0)[0], "unknown": rows(0)} for rank in range(2)])
model.to_neuron()
facts["calls"] = [model(rows(1))["y"].tolist(), model(x=rows(1, 3))["y"].tolist()]
model.write_to_neuron_buffer(rows(9)[0], "total", 0)
facts["written"] = model(rows(0))["y"].tolist()
facts["read"] = [model.read_from_neuron_buffer(name, 1).tolist() for name in ("total", "weight")]
facts["refused"] = [
    refusal(lambda: model.write_to_neuron_buffer(torch.zeros(3), "total", 0)),
    refusal(lambda: model.read_from_neuron_buffer("offset", 0)),
    refusal(lambda: model(rows(1, 2))),
    refusal(lambda: model.set_weights([])),
]
model.replace_weights([{"weight": rows(1)[0]}, {}])
facts["replaced"] = model(rows(1))["y"].tolist()
print(json.dumps(facts))
"""


@pytest.fixture(scope="module")
def facts(subjects: Subjects, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """What a process saw that built a model of two ranks and two shapes, and used it."""
    folder: Path = tmp_path_factory.mktemp("v2")
    return subjects.run(CODE, folder, **settings(folder)).value


def test_graphs_share_a_state_that_starts_at_zero(facts: Any) -> None:
    """Ranks count 1 and 10, a buffer that no graph assigns is a constant of 3, weights for it are dropped."""
    assert facts["calls"] == [[11 + 3] * 2, [44 + 3] * 2]


def test_writes_reach_the_graph_on_the_rank_they_are_made_to(facts: Any) -> None:
    assert facts["written"] == [9 + 40 + 3] * 2
    assert facts["read"] == [[4, 4], [10, 10]]


def test_replaced_weights_start_the_state_over(facts: Any) -> None:
    assert facts["replaced"] == [1 + 3] * 2


def test_the_module_is_left_as_it_was(facts: Any) -> None:
    assert facts["buffers"] == [[7, 7], ["offset", "total"], "Summing"]


def test_it_refuses_to_run_before_it_is_loaded(facts: Any) -> None:
    call, read = facts["before"]
    assert call == "RuntimeError: Model not initialized. Call set_weights() followed by to_neuron()"
    assert "must be loaded on neuron before" in read


def test_refusals_name_the_buffer_the_shape_or_the_route(facts: Any) -> None:
    write, read, call, weights = facts["refused"]
    assert "Cannot write tensor of shape torch.Size([3])" in write
    assert "Could not find neuron buffer: offset in rank 0" in read
    assert call == "KeyError: '(x: [2, 2])'"
    assert "call `replace_weights()` instead" in weights


def test_states_keep_their_shape_and_inputs_have_names(facts: Any) -> None:
    assert "total changes its shape or dtype" in facts["shrinking"]
    assert "Found unexpected keys in kwargs: {'y'}" in facts["unnamed"]

"""Tracing: inputs, weights, buffers, aliases and what is refused (sections 2.1, 2.2, 2.4, 2.5, 3.2)."""

from __future__ import annotations

import json

import pytest

from tests.standins.conftest import Run

START = """
import json, warnings, torch, torch_neuronx
from torch import nn
from neuron_standin.lowering import lower
from neuron_standin.hlo import Module
from tests.standins.modules import Affine, Counter, Sharded, parameter

class Of(nn.Module):
    def __init__(self, function, *parameters, **buffers):
        super().__init__()
        self.function, self.p = function, nn.ParameterList(parameters)
        for name, one in buffers.items():
            self.register_buffer(name, one)
    def forward(self, *inputs):
        return self.function(self, *inputs)

def refusal(call):
    try:
        call()
    except Exception as error:
        return f"{type(error).__name__}: {error}"

def slots(lowered):
    return [[s.kind, s.name, s.index, s.dtype, list(s.shape)] for s in lowered.metaneff.parameters]
"""


def test_user_inputs_come_first_and_nested_ones_are_flattened(run: Run) -> None:
    found = run(
        START
        + """
def f(m, a, rest):
    return rest[0] @ m.p[0] + a, [rest[1][0] * m.p[1], a]
low = lower(Of(f, parameter(torch.ones(3, 3)), parameter(torch.ones(2))),
            (torch.ones(3), [torch.ones(3), (torch.ones(2, dtype=torch.bfloat16),)]))
print(json.dumps([slots(low), [list(p.shape) for p in Module(low.hlo).parameters()], str(low.output_spec)]))
"""
    ).value
    assert found[0] == [
        ["input", "", 0, "float32", [3]],
        ["input", "", 1, "float32", [3]],
        ["input", "", 2, "bfloat16", [2]],
        ["weight", "p.0", -1, "float32", [3, 3]],
        ["weight", "p.1", -1, "float32", [2]],
    ]
    assert found[1] == [[3], [3], [2], [3, 3], [2]]


def test_states_are_in_module_order_whatever_the_dict_says(run: Run) -> None:
    found = run(
        START
        + """
counter = Counter()
low = lower(counter, torch.ones(2), counter.aliases())
print(json.dumps([[s.name for s in low.metaneff.states()], [o.alias for o in low.metaneff.outputs],
                  sorted(Module(low.hlo).aliases().items())]))
"""
    ).value
    assert found[0] == ["k.0", "k.1", "v.0", "v.1"]
    assert found[1] == [-1, 1, 3, 2, 4]  # outputs k0, v0, k1, v1 to parameters after the one input
    assert found[2] == [[1, 1], [2, 3], [3, 2], [4, 4]]


def test_unused_inputs_are_dropped_with_a_warning_and_unused_weights_silently(run: Run) -> None:
    found = run(
        START
        + """
module = Of(lambda m, a, b, c: a * m.p[0] + c, parameter(torch.ones(1)), parameter(torch.ones(5)))
inputs = (torch.ones(2), torch.ones(3), torch.ones(2))
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    low = lower(module, inputs)
kept = lower(module, inputs, preserve_parameters=True)
from jaxlib import xla_client
text = xla_client.XlaComputation(kept.hlo).as_hlo_text()
said = [str(one.message) for one in caught if one.category is UserWarning]
print(json.dumps([said, slots(low), slots(kept)[3:], low.metaneff.user_inputs, "f32[5]" in text]))
"""
    ).value
    assert found[0] == ["user input 1 is not used by the graph: it is dropped"]
    assert [slot[:3] for slot in found[1]] == [["input", "", 0], ["input", "", 2], ["weight", "p.0", -1]]
    assert found[2] == [["weight", "p.1", -1, "float32", [5]]]
    assert found[3:] == [3, True]


def test_buffers_and_tensors_made_in_forward_are_constants_of_every_dtype(run: Run) -> None:
    found = run(
        START
        + """
made = dict(a=torch.tensor([1.5, -2.0]), b=torch.tensor([3, -4]), c=torch.tensor([5, -6], dtype=torch.int32),
            d=torch.tensor([True, False]), e=torch.tensor([0.5, 2.0], dtype=torch.bfloat16),
            f=torch.tensor([7, 250], dtype=torch.uint8), g=torch.tensor([-7, 7], dtype=torch.int8))
def total(m, x):
    t = sum((getattr(m, n).to(torch.float32) * (i + 1) for i, n in enumerate(made)), x)
    return t + torch.tensor([100.0, 200.0]).to(x.device)
module = Of(total, **made)
x = torch.zeros(2)
low = lower(module, x)
from neuron_standin.pjrt import Program
out = Program(low.hlo, 1).run([[x]])[0][0]
print(json.dumps([slots(low), out.tolist(), total(module, x).tolist()]))
"""
    ).value
    assert found[0] == [["input", "", 0, "float32", [2]]]
    assert found[1] == found[2]


def test_several_graphs_with_collectives_in_one_process(run: Run) -> None:
    found = run(
        START
        + """
sizes = [len(lower(Sharded(2), torch.ones(3)).hlo) for _ in range(3)]
low = lower(Sharded(2), torch.ones(3))
alone = lower(Affine(), torch.ones(2, 3))
print(json.dumps([sizes, slots(low), Module(low.hlo).ranks(), Module(alone.hlo).ranks()]))
"""
    ).value
    assert len(set(found[0])) == 1
    assert [slot[0] for slot in found[1]] == ["input", "weight", "weight"]
    assert found[2:] == [2, 1]


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("lower(c, x, {c.k[0]: 1, c.v[0]: 1})", "ValueError: two aliases name the same output"),
        ("lower(c, x, {c.k[0]: 5})", "ValueError: alias of 'k.0' names output 5; the module returns 5"),
        ("lower(c, x, {c.k[0]: -1})", "ValueError: alias of 'k.0' names output -1"),
        ("lower(c, x, {parameter(torch.zeros(2)): 1})", "ValueError: alias key is not a parameter"),
        ("lower(b, x, {b.state: 1})", "ValueError: alias key is the buffer 'state'"),
        ("lower(lambda a: a + 1, x, {c.k[0]: 0})", "TypeError: input_output_aliases need an nn.Module"),
        ("lower(d, x, {d.p[0]: 1})", "RuntimeError: state 'p.0' is float32[2] but its output 1 is bfloat16[2]"),
        ("lower(s, x, {s.p[0]: 1})", "RuntimeError: state 'p.0' is float32[2] but its output 1 is float32[1, 2]"),
        ("lower(u, x, {u.p[0]: 1})", "RuntimeError: state 'p.0' influences no output"),
        ("lower(c, (x, 3))", "TypeError: example input 1 is int"),
        ("lower(n, x)", "RuntimeError: output 1 is not computed by the graph: int"),
    ],
)
def test_what_is_refused(code: str, said: str, run: Run) -> None:
    found = run(
        START
        + f"""
x, c = torch.ones(2), Counter()
b = Of(lambda m, a: (a, m.state + a), state=torch.zeros(2))
d = Of(lambda m, a: (a, (m.p[0] + a).to(torch.bfloat16)), parameter(torch.zeros(2)))
s = Of(lambda m, a: (a, (m.p[0] + a)[None]), parameter(torch.zeros(2)))
u = Of(lambda m, a: (a * 2, a * 1), parameter(torch.zeros(2)))
n = Of(lambda m, a: (a * 2, 3))
print(json.dumps(refusal(lambda: {code})))
"""
    ).value
    assert found.startswith(said), json.dumps(found)

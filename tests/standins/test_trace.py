"""torch_neuronx.trace: targets, work directory, compiler failures, weights inside or beside (2.1, 2.3 to 2.5)."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.standins.conftest import Run

START = """
import json, warnings, torch, torch_neuronx
from pathlib import Path
from torch import nn
from tests.standins.modules import Affine, Counter
x = torch.arange(6.0).reshape(2, 3)

def trace(module, *inputs, compiler_args="--target inf2", cpu_backend=True, **named):
    return torch_neuronx.trace(module, inputs, compiler_args=compiler_args, cpu_backend=cpu_backend, **named)

def refusal(call):
    try:
        call()
    except Exception as error:
        return f"{type(error).__name__}: {error}"
"""


@pytest.mark.parametrize("inlined", [True, False])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_a_traced_module_computes_what_torch_computes(inlined: bool, dtype: str, run: Run) -> None:
    found = run(
        START
        + f"""
module, y = Affine(dtype=torch.{dtype}), x.to(torch.{dtype})
traced = trace(module, y, inline_weights_to_neff={inlined})
print(json.dumps([type(traced).__name__, (traced(y) - module(y)).abs().max().item(), str(traced(y).dtype),
                  [n for n, _ in traced.named_parameters()]]))
"""
    ).value
    assert found[0] == "TopLevelTracedModule"
    assert found[1] <= (1e-5 if dtype == "float32" else 0.1)
    assert found[2:] == [f"torch.{dtype}", [] if inlined else ["weights.0", "weights.1"]]


def test_structure_of_the_outputs_is_kept(run: Run) -> None:
    found = run(
        START
        + """
class Nested(nn.Module):
    def forward(self, a, rest):
        return a + 1, (rest[0] * 2, [a * 3])
got = trace(Nested(), torch.ones(2), [torch.ones(1)])(torch.ones(2), [torch.ones(1)])
print(json.dumps([type(got).__name__, type(got[1]).__name__, got[0].tolist(), got[1][0].tolist(),
                  got[1][1][0].tolist()]))
"""
    ).value
    assert found == ["tuple", "tuple", [2, 2], [2], [3, 3]]


@pytest.mark.parametrize(
    ("call", "variables", "said"),
    [
        ("trace(m, x, compiler_args=None, cpu_backend=False)", {}, "RuntimeError: Unsupported Platform"),
        ("trace(m, x, compiler_args='-O1')", {}, "RuntimeError: Unsupported Platform"),
        (
            "trace(m, x, compiler_args='-O1')",
            {"NEURON_PLATFORM_TARGET_OVERRIDE": "inf2"},
            "ValueError: cpu_backend=True needs --target in compiler_args",
        ),
        ("trace(m, x, compiler_args='--target=inf9')", {}, "RuntimeError: Unsupported Platform: target is 'inf9'"),
        ("trace(m, x, cpu_backend=False)", {"STANDIN_DEVICES": "0"}, "no neuron device found"),
        ("trace(m, x)", {"STANDIN_DEVICES": "0", "STANDIN_CPU_TRACE": "needs-device"}, "no neuron device found"),
        ("trace(m, x, partitioner_config={})", {}, "TypeError: partitioner_config is dict"),
        ("torch_neuronx.trace(m, x, {})", {}, "TypeError"),
        ("trace(m, x, compiler_args='--target inf2 --cache_dir=c')", {}, "neuronx-cc failed with 70"),
        ("trace(m, x)", {"STANDIN_NCC_FAIL": "oom"}, "neuronx-cc failed with -9 (killed, usually out of host memory)"),
        ("trace(m, x)", {"STANDIN_NCC_FAIL": "abort"}, "neuronx-cc failed with -6 (abort"),
        ("trace(m, x)", {"STANDIN_NCC_FAIL": "segfault"}, "neuronx-cc failed with -11 (segm"),
    ],
)
def test_what_trace_refuses(call: str, variables: dict[str, str], said: str, run: Run) -> None:
    done = run(START + f"m = Affine()\nprint(json.dumps(refusal(lambda: {call})))", **variables)
    assert said in done.value, json.dumps(done.value)


def test_target_by_environment_and_no_device_needed_on_cpu(run: Run) -> None:
    found = run(
        START
        + """
from torch_neuronx.utils import get_platform_target
traced = trace(Affine(), x)
torch.jit.save(traced, "m.pt")
print(json.dumps([get_platform_target(None), get_platform_target(["--target", "inf2"])]))
""",
        STANDIN_DEVICES="0",
        NEURON_PLATFORM_TARGET_OVERRIDE="trn1",
    ).value
    assert found == ["trn1", "inf2"]


def test_work_directory_and_litter(run: Run, tmp_path: Path) -> None:
    done = run(START + "trace(Affine(), x, compiler_workdir='work', compiler_args=['--target', 'inf2', '-O1'])")
    assert done.code == 0, done.err
    work = tmp_path / "work"
    assert {one.name for one in work.iterdir()} == {
        "model",
        "command.txt",
        "graph.neff",
        "metaneff",
        "log-neuron-cc.txt",
    }
    assert (work / "model/graph.hlo").stat().st_size > 0
    assert len(list((work / "model/weights").glob("*.npy"))) == 2
    command = (work / "command.txt").read_text()
    assert command.startswith(f"neuronx-cc compile {work}/model --framework XLA ")
    assert command.endswith(" --target inf2 -O1\n")
    assert (tmp_path / "log-neuron-cc.txt").exists()  # the compiler's own, in the caller's directory


def test_two_traces_in_one_work_directory_poison_each_other(run: Run) -> None:
    found = run(
        START
        + """
import os
from concurrent.futures import ThreadPoolExecutor
os.mkfifo("pipe")
os.environ["STANDIN_NCC_HOLD"] = "pipe"
call = lambda: refusal(lambda: trace(Affine(), x, compiler_workdir="work"))
first = ThreadPoolExecutor().submit(call)
with open("pipe", "wb"):  # opens when the first compiler has claimed the directory and waits
    del os.environ["STANDIN_NCC_HOLD"]
    second = call()
print(json.dumps([first.result(), second, refusal(lambda: trace(Affine(), x, compiler_workdir="own"))]))
"""
    )
    assert [said and "neuronx-cc failed with 70" in said for said in found.value] == [True, True, None]
    assert found.err.count("Got a cached failed neff") == 2


def test_separated_weights_can_be_replaced_and_inlined_ones_cannot(run: Run) -> None:
    found = run(
        START
        + """
old, new = Affine(), Affine()
with torch.no_grad():
    new.linear.weight.fill_(3.0)
apart, inside = trace(old, x, inline_weights_to_neff=False), trace(old, x)
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    torch_neuronx.replace_weights(inside, new)
torch_neuronx.replace_weights(apart, {"linear.weight": new.linear.weight})
torch.jit.save(apart, "m.pt")
again = torch.jit.load("m.pt")
torch_neuronx.replace_weights(again, old)
print(json.dumps([[str(c.message) for c in caught], torch.allclose(apart(x), new(x)), torch.allclose(inside(x), old(x)),
                  torch.allclose(again(x), old(x)), torch.allclose(old(x), new(x))]))
"""
    ).value
    assert found == [["the weights are inlined in the NEFF: replace_weights has no effect"], True, True, True, False]


def test_buffers_keep_the_value_they_had_at_trace_time(run: Run) -> None:
    """The trap of layer_scalar: no loader reaches a buffer."""
    found = run(
        START
        + """
module = Affine(scale=1.0)
traced = trace(module, x, inline_weights_to_neff=False)
wanted = Affine(scale=0.25)
torch_neuronx.replace_weights(traced, dict(wanted.state_dict()))
print(json.dumps([torch.allclose(traced(x), wanted(x)), torch.allclose(traced(x), wanted(x) * 4)]))
"""
    ).value
    assert found == [False, True]


def test_dynamic_batch(run: Run) -> None:
    found = run(
        START
        + """
module, counter = Affine(), Counter()
traced = torch_neuronx.dynamic_batch(trace(module, x))
many = torch.randn(5, 3)
stateful = trace(counter, torch.ones(2), input_output_aliases=counter.aliases())
print(json.dumps([torch.allclose(traced(many), module(many), atol=1e-6),
                  refusal(lambda: torch_neuronx.dynamic_batch(stateful))]))
"""
    ).value
    assert found[0]
    assert "cannot be used with aliased state" in found[1]


def test_partitioner_config_has_the_documented_defaults(run: Run) -> None:
    found = run(START + "print(json.dumps(vars(torch_neuronx.PartitionerConfig())))").value
    assert found == {
        "trace_kwargs": None,
        "model_support_percentage_threshold": 0.5,
        "min_subgraph_size": -1,
        "max_subgraph_count": -1,
        "ops_to_partition": None,
        "analyze_parameters": None,
    }

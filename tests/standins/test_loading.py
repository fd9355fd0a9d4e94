"""A saved archive in a fresh process: loading, cores, static shapes (sections 2.1, 2.3, 2.6, 3.6 point 6, 7.3)."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.standins.conftest import Run
from tests.standins.subjects import Subjects

START = """
import json, os, subprocess, sys, torch, torch_neuronx
x = torch.arange(6.0).reshape(2, 3)

def refusal(call):
    try:
        call()
    except Exception as error:
        return f"{type(error).__name__}: {error}"
"""
OTHER = """
from neuron_standin import runtime
print(runtime.init())
"""


@pytest.fixture(scope="module")
def archives(subjects: Subjects, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder with m.pt (inlined), lazy.pt and wanted.json (torch's own result)."""
    folder = tmp_path_factory.mktemp("archives")
    done = subjects.run(
        START
        + """
from tests.standins.modules import Affine
module = Affine()
traced = torch_neuronx.trace(module, x, compiler_args="--target inf2", cpu_backend=True)
torch.jit.save(traced, "m.pt")
torch_neuronx.lazy_load(traced)
torch_neuronx.async_load(traced)
torch.jit.save(traced, "lazy.pt")
json.dump(module(x).flatten().tolist(), open("wanted.json", "w"))
""",
        folder,
    )
    assert done.code == 0, done.err
    yield folder


def test_without_importing_torch_neuronx_the_operator_is_unknown(archives: Path, run: Run) -> None:
    done = run(f"import torch; torch.jit.load('{archives}/m.pt')")
    assert "Unknown builtin op: neuron::forward" in done.err


def test_the_compiler_is_not_needed_to_run(archives: Path, run: Run, tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/libneuronpjrt-path").symlink_to(Path(__file__).with_name("bin") / "libneuronpjrt-path")
    found = run(
        START
        + f"""
import shutil
print(json.dumps([shutil.which("neuronx-cc"), torch.jit.load("{archives}/m.pt")(x).flatten().tolist()]))
""",
        PATH=f"{tmp_path}/bin:{Path(sys.executable).parent}:{os.defpath}",
    ).value
    assert found[0] is None
    assert found[1] == pytest.approx(json.loads((archives / "wanted.json").read_text()), rel=1e-5)


@pytest.mark.parametrize(
    ("argument", "said"),
    [
        ("torch.zeros(2, 4)", "Incorrect tensor shape at input tensor #0: received [2, 4], expected [2, 3]"),
        ("torch.zeros(1, 3)", "Incorrect tensor shape at input tensor #0: received [1, 3], expected [2, 3]"),
        ("x.to(torch.int32)", "Incorrect tensor data type at input tensor #0: received int32, expected float32"),
        ("x.to(torch.bfloat16)", "Incorrect tensor data type at input tensor #0: received bfloat16, expected float32"),
    ],
)
def test_shapes_and_dtypes_are_static(argument: str, said: str, archives: Path, run: Run) -> None:
    code = f"m = torch.jit.load('{archives}/m.pt')\nprint(json.dumps(refusal(lambda: m({argument}))))"
    found = run(START + code).value
    assert found.startswith("RuntimeError")
    assert said in found


def test_a_host_without_device_fails_at_load_or_at_first_use_when_lazy(archives: Path, run: Run) -> None:
    found = run(
        START
        + f"""
lazy = torch.jit.load("{archives}/lazy.pt")
with torch_neuronx.contexts.disable_nrt_load():
    quiet = torch.jit.load("{archives}/m.pt")
calls = [lambda: torch.jit.load("{archives}/m.pt"), lambda: lazy(x), lambda: quiet(x)]
print(json.dumps([refusal(call) for call in calls]))
""",
        STANDIN_DEVICES="0",
    ).value
    assert len(found) == 3
    for one in found:
        assert "nrt_init" in one
        assert "no neuron device" in one


def test_a_second_process_finds_the_cores_busy(archives: Path, run: Run, tmp_path: Path) -> None:
    found = run(
        START
        + f"""
model = torch.jit.load("{archives}/m.pt")
def other(**variables):
    command, variables = [sys.executable, "-c", {OTHER!r}], {{**os.environ, **variables}}
    done = subprocess.run(command, env=variables, capture_output=True, text=True)
    return done.stdout + done.stderr
owners = {{name: open(f"host/cores/{{name}}").read() for name in sorted(os.listdir("host/cores"))}}
print(json.dumps([other(), owners == {{"0": f"{{os.getpid()}}\\n"}}, other(NEURON_RT_VISIBLE_CORES="1"),
                  other(NEURON_RT_VISIBLE_CORES=""), other(NEURON_RT_VISIBLE_CORES="", NEURON_RT_NUM_CORES="1"),
                  other(NEURON_RT_VISIBLE_CORES="2")]))
""",
        NEURON_RT_VISIBLE_CORES="0",
    ).value
    busy = "Logical Neuron Core(s) not available - Requested:{} Available:{}"
    assert busy.format(1, 0) in found[0]
    assert found[1]
    assert found[2] == "[1]\n"
    assert busy.format(2, 1) in found[3]
    assert found[4] == "[1]\n"
    assert "NRT_INVALID" in found[5]
    # The owner is gone: its cores are free.
    assert run(OTHER).out == "[0, 1]\n"


def test_models_are_placed_round_robin_or_where_they_are_told(archives: Path, run: Run) -> None:
    found = run(
        START
        + f"""
def load():
    return torch.jit.load("{archives}/m.pt")
cores = [load().neff.standin_cores for _ in range(3)]
with torch_neuronx.experimental.neuron_cores_context(1):
    told = [load().neff.standin_cores for _ in range(2)]
lazy = torch.jit.load("{archives}/lazy.pt")
torch_neuronx.experimental.set_neuron_cores(lazy, 2)
calls = [lambda: lazy(x), lambda: torch_neuronx.move_trace_to_device(load(), 2)]
print(json.dumps([cores, told, *(refusal(call) for call in calls)]))
"""
    ).value
    assert found[:2] == [[[0], [1], [0]], [[1], [1]]]
    assert "the model needs cores 2 to 2, this process has 2" in found[2]
    assert "device id 2 is out of range; this process has 2 NeuronCores" in found[3]

"""What importing and starting neuronx_distributed needs: sections 2.5, 3.1 and 11 of the SDK document. About 15 s."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.standins.conftest import Run
from tests.standins.nxd_run import settings, started
from tests.standins.subjects import Subjects

STUB = """
import sys, types
stub = types.ModuleType("transformers.utils.fx")
stub.HFTracer = object
sys.modules["transformers.utils.fx"] = stub
"""
STATE = """
import importlib.metadata, json, os
import neuronx_distributed
from neuronx_distributed.parallel_layers import parallel_state
from neuronx_distributed.trace.mock_torchdist import mock_distributed

def refusal(tp):
    try:
        parallel_state.initialize_model_parallel(tensor_model_parallel_size=tp)
    except Exception as error:
        return f"{type(error).__name__}: {error}"

facts = {"versions": [neuronx_distributed.__version__, importlib.metadata.version("neuronx-distributed")]}
with mock_distributed(4):
    facts["third"] = refusal(3)
    parallel_state.initialize_model_parallel(tensor_model_parallel_size=2, skip_collective_init=True)
    facts["sizes"] = [parallel_state.get_tensor_model_parallel_size(), parallel_state.get_tensor_model_parallel_rank()]
    facts["groups"] = parallel_state.get_tensor_model_parallel_group(as_list=True)
    facts["twice"] = refusal(2)
    parallel_state.destroy_model_parallel()
    facts["after"] = parallel_state.model_parallel_is_initialized()
    del os.environ["NEURON_PLATFORM_TARGET_OVERRIDE"]
    facts["target"] = refusal(2)
print(json.dumps(facts))
"""
TRACE = """
import torch
from neuronx_distributed.trace import parallel_model_trace
parallel_model_trace(make, (torch.zeros(1),), compiler_args="--target inf2")
"""
MAKE = """
def make():
    raise SystemExit("the rank was reached")
"""


def indented(code: str) -> str:
    """`code` under the main guard."""
    return "if __name__ == '__main__':\n" + "".join(f"    {line}\n" for line in code.splitlines())


@pytest.fixture(scope="module")
def state(subjects: Subjects, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """What a process sees that starts a parallel state in a mocked world of four ranks."""
    folder = tmp_path_factory.mktemp("state")
    return subjects.run(STUB + STATE, folder, **settings(folder)).value


def test_it_cannot_be_imported_beside_the_transformers_of_today(run: Run) -> None:
    assert "No module named 'transformers.utils.fx'" in run("import neuronx_distributed").err


def test_with_a_stub_in_place_it_is_imported_and_tells_its_version(state: Any) -> None:
    assert state["versions"] == ["0.17.26814+standin"] * 2


def test_groups_are_neighbours_and_the_tracing_rank_is_zero(state: Any) -> None:
    assert state["groups"] == [[0, 1], [2, 3]]
    assert state["sizes"] == [2, 0]
    assert state["after"] is False


def test_ranks_must_divide_the_world(state: Any) -> None:
    assert "`world_size` (4) is not divisible by tensor_model_parallel_size (3)" in state["third"]


def test_a_state_is_started_once(state: Any) -> None:
    assert state["twice"] == "AssertionError: tensor model parallel group is already initialized"


def test_the_target_must_be_known(state: Any) -> None:
    assert state["target"].startswith("RuntimeError: Unsupported Platform")


def test_a_caller_without_a_main_guard_is_refused(tmp_path: Path) -> None:
    script = tmp_path / "unguarded.py"
    script.write_text(STUB + MAKE + TRACE)
    assert "freeze_support" in started(tmp_path, str(script)).stderr


def test_a_stub_that_is_placed_in_main_comes_too_late_for_the_ranks(tmp_path: Path) -> None:
    script = tmp_path / "late.py"
    script.write_text(MAKE + indented(STUB + TRACE))
    said = started(tmp_path, str(script)).stderr
    assert "No module named 'transformers.utils.fx'" in said
    assert "the rank was reached" not in said

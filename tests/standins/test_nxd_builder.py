"""ModelBuilder V1 of the stand-ins against sections 3.2 and 3.3 of the SDK document; numbers against numpy.

One process builds, on a host without a device; another loads, on a host with one. About 15 s together.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.standins import nxd_toy
from tests.standins.nxd_run import settings
from tests.standins.subjects import Subjects

WHOLE = nxd_toy.values()
INPUTS = [np.random.default_rng(1).normal(size=(rows, nxd_toy.WIDTH)).astype(np.float32) for rows in (4, 1, 1)]
ADDED = "--target inf2 --auto-cast=none -O1 --verbose=35"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the models are built."""
    return tmp_path_factory.mktemp("nxd")


@pytest.fixture(scope="module")
def built(subjects: Subjects, folder: Path) -> Any:
    """What the building process saw."""
    code = "from tests.standins import nxd_build\nnxd_build.main()"
    return subjects.run(code, folder, **settings(folder), STANDIN_DEVICES="0").value


@pytest.fixture(scope="module")
def used(subjects: Subjects, folder: Path, built: Any) -> Any:
    """What the loading process saw."""
    return subjects.run("from tests.standins import nxd_use\nnxd_use.main()", folder, **settings(folder)).value


@pytest.mark.parametrize("toy", ["toy1", "toy2"])
class TestLoaded:
    """A saved model in a fresh process, with one rank and with two."""

    def test_graphs_share_weights_and_a_state_that_starts_at_zero(self, used: Any, toy: str) -> None:
        """The parameter of the state held 7, and the buffer `scale` of 3 in the weights is not a weight."""
        for found, wanted in zip(used[toy]["outputs"], nxd_toy.expected(WHOLE, INPUTS), strict=True):
            np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-5)

    def test_states_are_not_returned_and_a_single_output_is_bare(self, used: Any, toy: str) -> None:
        assert used[toy]["type"] == "Tensor"

    def test_a_second_initialize_starts_over_and_drops_unknown_names(self, used: Any, toy: str) -> None:
        assert used[toy]["again"] == used[toy]["outputs"]

    def test_missing_weights_are_zeros_without_a_word(self, used: Any, toy: str) -> None:
        assert not np.any(np.concatenate(used[toy]["missing"]))

    def test_weights_go_along_when_an_initialized_model_is_saved(self, used: Any, toy: str) -> None:
        assert used[toy]["saved"] == used[toy]["outputs"]

    def test_it_refuses_to_run_before_initialize(self, used: Any, toy: str) -> None:
        assert "This model is not initialized, please call traced_model.nxd_model" in used[toy]["uninitialized"]

    def test_a_shape_that_no_graph_has_is_a_key_error(self, used: Any, toy: str) -> None:
        assert "KeyError: [[2, 3]]" in used[toy]["shape"]

    def test_an_input_of_another_dtype_is_refused(self, used: Any, toy: str) -> None:
        assert "received float64, expected float32" in used[toy]["dtype"]

    def test_a_weight_of_another_shape_is_refused(self, used: Any, toy: str) -> None:
        assert "Incorrect weight down.weight" in used[toy]["misshapen"]

    def test_weights_for_another_number_of_ranks_are_refused(self, used: Any, toy: str) -> None:
        ranks = int(toy[-1])
        assert f"weights of {2 * ranks} ranks for a model of {ranks}" in used[toy]["rank_count"]


def test_a_buffer_that_is_made_a_parameter_arrives(used: Any) -> None:
    for found, wanted in zip(used["scaled"], nxd_toy.expected(WHOLE, INPUTS[1:], scale=3.0), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-5)


def test_a_python_rank_number_is_zero_on_every_rank_and_the_rank_tensor_is_not(used: Any) -> None:
    assert used["frozen"] == [1 + 1, 1 + 2]


def test_all_graphs_take_the_number_of_inputs_of_the_last(used: Any) -> None:
    outputs, refusal = used["arity"]
    assert outputs == [[3.0] * nxd_toy.WIDTH]
    assert "argument" in refusal


def test_all_graphs_return_what_the_first_returns(built: Any) -> None:
    assert "Expected 1 elements in a list but found 2" in built["uneven"]


def test_the_work_directory_is_emptied_and_shared_by_default(built: Any) -> None:
    assert built["stale"] is False
    assert built["default_workdir"] == "/tmp/nxd_model/"


def test_the_work_directory_keeps_what_was_made(built: Any) -> None:
    assert {"graph.neff", "metaneff.pb", "log-neuron-cc.txt", "model"} <= set(built["files"])


def test_flags_are_added_where_they_are_not_said(built: Any) -> None:
    default = "--enable-saturate-infinity --auto-cast=none --model-type=transformer -O1 --verbose=35"
    assert built["flags"] == [default, ADDED, "-O2 --auto-cast=all --verbose=35"]


def test_the_compiler_was_given_these_flags(folder: Path, built: Any) -> None:
    recorded = [json.loads(file.read_text()) for file in folder.glob("cache/*/*/compile_flags.json")]
    assert recorded
    assert all(set(ADDED.split()) <= set(flags) for flags in recorded)


def test_a_dry_run_writes_modules_and_commands_and_compiles_nothing(folder: Path, built: Any) -> None:
    returned_none, files = built["dry"]
    assert returned_none
    assert files == [f"rows{n}x1/_tp0_bk0/{name}" for n in (1, 4) for name in ("command.txt", "model")]
    assert (folder / "work-dry/rows1x1/_tp0_bk0/model/graph.hlo").stat().st_size > 0


def test_arguments_of_the_wrong_kind_are_refused(built: Any) -> None:
    assert built["not_a_list"].startswith("TypeError: example_inputs is a list of tuples")
    assert built["world"].startswith("ValueError: `world_size` is specified, but `local_ranks_size` is None")


def test_only_weights_need_a_device(built: Any) -> None:
    """Everything else in `built` was made without one."""
    assert "NRT_FAILURE" in built["without_device"]
    (wanted,) = nxd_toy.expected(WHOLE, [np.ones((1, nxd_toy.WIDTH), np.float32)])
    np.testing.assert_allclose(built["initialized"], wanted, rtol=1e-5, atol=1e-5)


class TestShardCheckpoint:
    """A parallel layer, a plain one that the checkpoint lacks, a float16 buffer, and two keys of another model."""

    def test_the_loader_is_called_on_the_meta_device(self, built: Any) -> None:
        assert built["sharding"]["loader_device"] == ["meta"]

    def test_unknown_keys_are_dropped_with_a_warning_and_out_of_the_callers_dict(self, built: Any) -> None:
        (warning,) = built["sharding"]["warnings"]
        assert warning == "Removing redundant keys from checkpoint: ['down.weight', 'unknown']"
        assert built["sharding"]["source"] == ["place.rank", "scale", "up.weight"]

    def test_parallel_layers_are_cut_and_missing_ones_skipped(self, built: Any) -> None:
        np.testing.assert_array_equal(np.concatenate(built["sharding"]["up"]), WHOLE["up.weight"])
        assert built["sharding"]["place"] == [[0], [1]]
        assert all(set(rank) == {"place.rank", "scale", "up.weight"} for rank in built["sharding"]["ranks"])

    def test_a_buffer_keeps_the_checkpoints_dtype(self, built: Any) -> None:
        assert [rank["scale"] for rank in built["sharding"]["ranks"]] == [[[1], "torch.float32"]] * 2

    def test_files_have_the_documented_names(self, built: Any) -> None:
        assert built["sharding"]["files"] == [f"tp{rank}_sharded_checkpoint.safetensors" for rank in range(2)]

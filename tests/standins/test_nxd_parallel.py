"""parallel_model_trace, save and load of the stand-ins against sections 3.1 and 3.6 of the SDK document. About 40 s."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.standins import nxd_toy
from tests.standins.nxd_run import settings, started
from tests.standins.subjects import Subjects

# What builds with it is tested with it: tests/recipes/neuron/test_stage.py.
pytestmark = pytest.mark.soak

WHOLE = nxd_toy.values()
X = np.random.default_rng(1).normal(size=(2, nxd_toy.WIDTH)).astype(np.float32)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where both models are built."""
    return tmp_path_factory.mktemp("parallel")


@pytest.fixture(scope="module")
def built(folder: Path) -> Any:
    """What the building process saw, on a host without a device."""
    done = started(folder, "-m", "tests.standins.nxd_parallel", STANDIN_DEVICES="0")
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@pytest.fixture(scope="module")
def loaded(subjects: Subjects, folder: Path, built: Any) -> Any:
    """What a fresh process saw that loaded them."""
    code = "from tests.standins import nxd_parallel\nnxd_parallel.load()"
    return subjects.run(code, folder, **settings(folder)).value


def test_a_file_and_a_work_directory_per_rank(built: Any) -> None:
    assert built["type"] == "TensorParallelNeuronModel"
    assert built["saved"] == ["tp_0.pt", "tp_1.pt"]
    assert built["work"] == ["_tp0", "_tp1"]


def test_ranks_meet_in_their_sums_and_the_state_starts_at_the_traced_values(loaded: Any) -> None:
    """Each rank holds half of the weights inlined; a state of 7 adds 7 to every output."""
    for found, wanted in zip(loaded["outputs"], nxd_toy.expected(WHOLE, [X, X]), strict=True):
        np.testing.assert_allclose(found, wanted + 7, rtol=1e-5, atol=1e-5)


def test_the_first_forward_orphans_references_to_the_state(loaded: Any) -> None:
    assert loaded["replaced"] == [True, True]
    assert loaded["before"] == [[[7.0] * nxd_toy.WIDTH]] * 2
    first, second = loaded["after"]
    np.testing.assert_allclose(first, second)
    assert np.all(np.abs(np.array(first) - 7) > 1e-3)


def test_another_load_has_a_state_of_its_own(loaded: Any) -> None:
    assert loaded["other"] == loaded["outputs"][0]


def test_a_python_rank_number_is_each_ranks_own_and_one_ranks_result_is_returned(loaded: Any) -> None:
    summed, own = loaded["frozen"]
    np.testing.assert_allclose(summed, 3 * X, rtol=1e-6)
    assert any(np.allclose(own, factor * X) for factor in (1, 2))


def test_any_other_file_in_the_folder_keeps_it_from_loading(loaded: Any) -> None:
    assert loaded["stray"].startswith("ValueError: invalid literal for int()")


def test_an_error_in_a_ranks_process_is_raised_in_the_caller(built: Any) -> None:
    assert "no weights for rank 0" in built["failing"]


def test_what_cannot_be_sent_to_a_process_is_refused(built: Any) -> None:
    assert "pickle" in built["lambda"]


def test_combinations_that_the_sdk_refuses(built: Any) -> None:
    assert built["spmd"].startswith("ValueError: Spmd mode is not supported when inline_weights_to_neff=True")
    assert built["buckets"].startswith("ValueError: Bucketing is not supported when inline_weights_to_neff=True")

"""Memory shared between numpy and torch, and the tensors in what a graph returns."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from serve.errors import ServeError
from serve.manifest import DType, Parameter
from serve.runtime.neuron.tensors import leading, over, zeros
from serve.tensorfile import TensorFile


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int32"])
@pytest.mark.parametrize("shape", [(), (3,), (2, 1, 5)])
def test_the_engine_writes_what_the_graph_reads(dtype: DType, shape: tuple[int, ...]) -> None:
    array = zeros(Parameter(name="x", role="input", shape=shape, dtype=dtype))
    tensor = over(array)
    assert (str(tensor.dtype), tuple(tensor.shape)) == (f"torch.{dtype}", shape)
    assert not tensor.any()
    array[...] = 3
    assert (tensor == 3).all()
    assert tensor.is_contiguous()


def test_a_mapped_weight_is_not_copied(tmp_path: Path) -> None:
    wanted = {"a": torch.randn(4, 8).bfloat16(), "b": torch.randn(5)}
    save_file(wanted, tmp_path / "weights.safetensors")
    file = TensorFile(tmp_path / "weights.safetensors")
    for name, tensor in wanted.items():
        assert torch.equal(over(file[name]), tensor)
        assert over(file[name]).data_ptr() == file[name].ctypes.data


A, B = torch.zeros(1), torch.ones(2)


@pytest.mark.parametrize("result", [A, (A,), [A], (A, B), [A, [B, B]], [[A, B]]])
def test_state_may_be_returned_or_stripped(result: Any) -> None:
    assert leading(result, 1)[0] is A


def test_a_graph_that_returns_too_little_is_refused() -> None:
    assert [id(tensor) for tensor in leading((A, [B]), 2)] == [id(A), id(B)]
    with pytest.raises(ServeError, match=r"returned 1 tensors; accepted: 2 or more"):
        leading(A, 2)
    with pytest.raises(ServeError, match=r"returned a dict; accepted: tensors"):
        leading({"logits": A}, 1)
    assert not np.asarray(A).any()

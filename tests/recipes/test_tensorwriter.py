"""The writer against the safetensors package, and the alignment that device clients need."""

from __future__ import annotations

import io
import json
import struct
from pathlib import Path

import numpy as np
import numpy.typing as npt
from hypothesis import given
from hypothesis import strategies as st
from safetensors.torch import load

from recipes.tensorwriter import size, write_tensors
from serve.manifest import Parameter
from serve.tensorfile import NUMPY, TensorFile

shapes = st.dictionaries(
    st.text("abcdefg.", min_size=1, max_size=8),
    st.tuples(st.lists(st.integers(0, 9), max_size=3).map(tuple), st.sampled_from(["float32", "bfloat16", "int32"])),
    max_size=8,
)
Shapes = dict[str, tuple[tuple[int, ...], str]]


def parameters(shapes: Shapes) -> list[Parameter]:
    return [
        Parameter.model_validate({"name": name, "role": "weight", "shape": shape, "dtype": dtype})
        for name, (shape, dtype) in shapes.items()
    ]


def values(parameter: Parameter) -> npt.NDArray[np.generic]:
    """Numbers that differ from tensor to tensor and are exact in every dtype."""
    first = sum(map(ord, parameter.name)) % 100
    count = int(np.prod(parameter.shape, dtype=np.int64))
    return (first + np.arange(count) % 100).reshape(parameter.shape).astype(NUMPY[parameter.dtype])


def written(tensors: list[Parameter]) -> bytes:
    file = io.BytesIO()
    write_tensors(file, tensors, values)
    return file.getvalue()


@given(shapes)
def test_the_package_reads_it(shapes: Shapes) -> None:
    tensors = parameters(shapes)
    found = load(written(tensors))
    assert found.keys() == shapes.keys()
    for tensor in tensors:
        assert str(found[tensor.name].dtype) == f"torch.{tensor.dtype}"
        assert tuple(found[tensor.name].shape) == tensor.shape
        assert found[tensor.name].double().tolist() == values(tensor).astype(np.float64).tolist()


@given(shapes)
def test_data_starts_aligned_and_so_does_every_multiple_of_64_bytes(shapes: Shapes) -> None:
    data = written(parameters(shapes))
    (length,) = struct.unpack("<Q", data[:8])
    assert (8 + length) % 64 == 0
    for entry in json.loads(data[8 : 8 + length]).values():
        begin, end = entry["data_offsets"]
        assert begin % 64 == 0 or (end - begin) % 64 != 0


@given(shapes, st.randoms())
def test_the_order_in_which_tensors_come_changes_nothing(shapes: Shapes, random: st.DataObject) -> None:
    tensors = parameters(shapes)
    shuffled = tensors.copy()
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    assert written(shuffled) == written(tensors)


def test_the_reader_that_ships_maps_it_without_a_copy(tmp_path: Path) -> None:
    tensors = parameters({"big": ((16, 8), "float32"), "small": ((1,), "bfloat16")})
    path = tmp_path / "a.safetensors"
    path.write_bytes(written(tensors))
    file = TensorFile(path)
    for tensor in tensors:
        assert (file[tensor.name] == values(tensor)).all()
        assert not file[tensor.name].flags.owndata
    assert file["big"].ctypes.data % 64 == 0


def test_size_is_in_bytes() -> None:
    tensors = parameters({"a": ((3, 4), "float32"), "b": ((3, 4), "bfloat16"), "c": ((), "int32")})
    assert [size(tensor) for tensor in tensors] == [48, 24, 4]

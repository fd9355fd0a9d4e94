"""The mapped reader against files of the safetensors package, and against damage."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from safetensors.torch import save, save_file

from serve.errors import ServeError
from serve.tensorfile import TensorFile

TENSORS = {
    "float": torch.linspace(-2, 2, 12).reshape(3, 4),
    "brain": torch.linspace(-2, 2, 7).bfloat16(),
    "half": torch.linspace(-2, 2, 5).half(),
    "int": torch.arange(-3, 3, dtype=torch.int32),
    "long": torch.arange(6).reshape(1, 2, 3),
    "scalar": torch.tensor(1.5),
    "none": torch.zeros(0, 4),
}
WHOLE = save(TENSORS, metadata={"format": "pt"})


def encoded(header: object, data: bytes = b"", length: int | None = None) -> bytes:
    text = json.dumps(header).encode()
    return (len(text) if length is None else length).to_bytes(8, "little") + text + data


def entry(**changes: Any) -> dict[str, Any]:
    return {"a": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]} | changes}


@pytest.mark.parametrize("read_ahead", [False, True])
def test_reads_what_the_package_writes(tmp_path: Path, read_ahead: bool) -> None:
    path = tmp_path / "a.safetensors"
    save_file(TENSORS, path, metadata={"format": "pt"})
    file = TensorFile(path, read_ahead=read_ahead)
    assert sorted(file.names()) == sorted(TENSORS)
    for name, tensor in TENSORS.items():
        assert str(tensor.dtype) == f"torch.{file[name].dtype}"
        assert file[name].shape == tensor.shape
        assert file[name].astype(np.float64).tolist() == tensor.double().tolist()


def test_arrays_cannot_be_written_and_outlive_the_file_object(tmp_path: Path) -> None:
    path = tmp_path / "a.safetensors"
    save_file({"a": torch.ones(3)}, path)
    array = TensorFile(path)["a"]
    assert array.tolist() == [1.0] * 3
    with pytest.raises(ValueError, match="read-only"):
        array[0] = 2.0


def test_an_unknown_name_is_a_key_error(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(WHOLE)
    with pytest.raises(KeyError):
        TensorFile(tmp_path / "a")["b"]


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\x05\x00\x00",
        WHOLE[:-1],
        WHOLE[:40],
        encoded([]),
        encoded(3),
        encoded({}, length=3),
        encoded({}, length=100),
        encoded({}, length=2**63),
        encoded(entry(), b"1234567"),
        encoded(entry(dtype="F8"), b"12345678"),
        encoded(entry(shape=[3]), b"12345678"),
        encoded(entry(shape=[-1, -2]), b"12345678"),
        encoded(entry(shape=2), b"12345678"),
        encoded(entry(shape=[2**63]), b"12345678"),
        encoded(entry(data_offsets=[0]), b"12345678"),
        encoded(entry(data_offsets=[-8, 0]), b"12345678"),
        encoded(entry(data_offsets=[2**63, 2**63 + 8]), b"12345678"),
        encoded({"a": 1}),
        encoded({"a": {"dtype": "F32"}}),
        (4).to_bytes(8, "little") + b"\xff\xfe{}",
    ],
)
def test_a_damaged_file_is_one_sentence_that_names_it(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "rank0.safetensors"
    path.write_bytes(content)
    with pytest.raises(ServeError, match=r"rank0\.safetensors: not a readable safetensors file") as error:
        TensorFile(path)
    assert "\n" not in str(error.value)


def test_a_missing_file_is_one_sentence_that_names_it(tmp_path: Path) -> None:
    with pytest.raises(ServeError, match="gone"):
        TensorFile(tmp_path / "gone")


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.integers(0, len(WHOLE) - 1), st.binary(min_size=1, max_size=4), st.booleans())
def test_no_damage_raises_anything_else(tmp_path: Path, at: int, noise: bytes, cut: bool) -> None:
    path = tmp_path / "a.safetensors"
    path.write_bytes(WHOLE[:at] + noise + (b"" if cut else WHOLE[at + len(noise) :]))
    try:
        file = TensorFile(path)
    except ServeError:
        return
    for name in file.names():
        file[name].sum()

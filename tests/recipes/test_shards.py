"""Headers and indexes of shards: read like the safetensors package does, and every kind of damage refused."""

from __future__ import annotations

import json
import re
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import save_file

from ledger.errors import BadInput
from recipes.shards import find_tensors, read_header

Copied = Callable[[], Path]
FIRST, SECOND = (f"model-0000{number}-of-00002.safetensors" for number in (1, 2))
NORM = "model.language_model.norm.weight"


def refused(sentence: str) -> Any:
    return pytest.raises(BadInput, match=sentence)


def place(index: Path, weight_map: dict[str, str]) -> None:
    index.write_text(json.dumps({"weight_map": weight_map}))


def test_a_single_file_needs_no_index(tmp_path: Path) -> None:
    kinds = (np.float32, np.float16, np.int64, np.uint8, np.bool_)
    wanted: dict[str, Any] = {
        f"t{number}": np.arange(6).reshape(2, 3).astype(kind) for number, kind in enumerate(kinds)
    }
    wanted |= {"none": np.zeros((0, 4), np.float32), "scalar": np.array(2.5, np.float32)}
    save_file(wanted, tmp_path / "model.safetensors")
    found = find_tensors(tmp_path)
    assert found.keys() == wanted.keys()
    for name, array in wanted.items():
        read = found[name].read()
        assert read.dtype == array.dtype
        assert read.shape == array.shape
        assert read.tobytes() == array.tobytes()


def test_no_weights(copied: Copied) -> None:
    folder = copied()
    (folder / "model.safetensors.index.json").unlink()
    with refused(r"holds no weights; accepted: model\.safetensors, or shards with model\.safetensors\.index\.json"):
        find_tensors(folder)


def test_missing_shard(copied: Copied) -> None:
    folder = copied()
    (folder / SECOND).unlink()
    with refused(rf"index\.json names the shard '{SECOND}', which is not there; accepted: a file beside the index"):
        find_tensors(folder)


def test_shard_outside_of_the_folder(copied: Copied) -> None:
    folder = copied()
    index = folder / "model.safetensors.index.json"
    weight_map = json.loads(index.read_text())["weight_map"]
    place(index, weight_map | {NORM: f"../{folder.name}/{SECOND}"})
    with refused(r"index\.json names the shard '\.\./checkpoint/.*', which is not there"):
        find_tensors(folder)


def test_index_without_a_map(copied: Copied) -> None:
    folder = copied()
    (folder / "model.safetensors.index.json").write_text('{"metadata": {}}')
    with refused(r"index\.json has no weight_map; accepted: the name of a shard for every tensor"):
        find_tensors(folder)


@pytest.mark.parametrize("missing", [1, 4096])
def test_truncated_shard(copied: Copied, missing: int) -> None:
    path = copied() / FIRST
    whole = path.stat().st_size
    with path.open("r+b") as file:
        file.truncate(whole - missing)
    with refused(rf"{FIRST} has {whole - missing} bytes; accepted: {whole}, as its header says"):
        find_tensors(path.parent)


def test_shard_that_is_too_long(copied: Copied) -> None:
    path = copied() / FIRST
    whole = path.stat().st_size
    with path.open("ab") as file:
        file.write(b"\0")
    with refused(rf"{FIRST} has {whole + 1} bytes; accepted: {whole}"):
        find_tensors(path.parent)


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        (b"", "has 0 bytes and announces a header of 0; accepted: a whole safetensors file"),
        (b"\x05\0\0", "has 3 bytes and announces a header of 0"),
        (struct.pack("<Q", 1 << 40) + b"{}", r"has 10 bytes and announces a header of 1099511627776"),
        (struct.pack("<Q", 3) + b"{]}", r"the header of .* is not readable as JSON"),
        (struct.pack("<Q", 2) + b"[]", r"the header of .* is damaged .*; accepted: a safetensors header"),
    ],
)
def test_damaged_header(tmp_path: Path, data: bytes, sentence: str) -> None:
    path = tmp_path / "model.safetensors"
    path.write_bytes(data)
    with refused(sentence):
        read_header(path)


@pytest.mark.parametrize(
    ("entry", "sentence"),
    [
        ({"dtype": "F4", "shape": [2], "data_offsets": [0, 8]}, "dtype 'F4'"),
        ({"dtype": "F32", "shape": [3], "data_offsets": [0, 8]}, r"8 bytes for float32 \[3\]"),
        ({"dtype": "F32", "shape": [2], "data_offsets": [-8, 0]}, r"offsets \[-8, 0\]"),
        ({"dtype": "F32", "shape": [2], "data_offsets": [8, 0]}, "-8 bytes for"),
        ({"dtype": "F32", "shape": [-1, -2], "data_offsets": [0, 8]}, r"shape \[-1, -2\]"),
        ({"dtype": "F32", "shape": [2.5], "data_offsets": [0, 8]}, r"shape \[2\.5\]"),
        ({"dtype": "F32", "shape": [2]}, "data_offsets"),
        (7, "subscriptable"),
    ],
)
def test_damaged_entry(tmp_path: Path, entry: object, sentence: str) -> None:
    header = json.dumps({"x": entry}).encode()
    path = tmp_path / "model.safetensors"
    path.write_bytes(struct.pack("<Q", len(header)) + header + bytes(8))
    with refused(rf"the header of .* is damaged \(.*{sentence}.*\)"):
        read_header(path)


def test_index_and_shards_disagree(copied: Copied) -> None:
    folder = copied()
    index = folder / "model.safetensors.index.json"
    weight_map = json.loads(index.read_text())["weight_map"]
    place(index, {name: file for name, file in weight_map.items() if name != NORM})
    with refused(rf"holds {re.escape(NORM)}, which model\.safetensors\.index\.json places in None"):
        find_tensors(folder)
    place(index, weight_map | {"model.language_model.more.weight": FIRST})
    with refused(rf"{FIRST} does not hold model\.language_model\.more\.weight; accepted: every tensor"):
        find_tensors(folder)

"""Safetensors shards of a checkpoint: which tensor lies where, known from the headers alone, and read by
mapping.

Departs from the safetensors package: bfloat16 comes as numpy arrays (ml_dtypes), nothing is read before it is
asked for, and a shard whose length is not the one its header promises (a download that stopped) is refused
when it is opened. Format: https://github.com/huggingface/safetensors (8-byte header length, JSON header,
tensor bytes).
"""

from __future__ import annotations

import math
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt

from ledger.digest import parse_json
from ledger.errors import BadInput

INDEX = "model.safetensors.index.json"
SINGLE = "model.safetensors"
# The format's own limit (safetensors, MAX_HEADER_SIZE): anything above it is damage, not a header.
LONGEST_HEADER = 100_000_000

DTYPES: dict[str, np.dtype[Any]] = {
    "BF16": np.dtype(ml_dtypes.bfloat16),
    "F16": np.dtype(np.float16),
    "F32": np.dtype(np.float32),
    "F64": np.dtype(np.float64),
    "I8": np.dtype(np.int8),
    "I32": np.dtype(np.int32),
    "I64": np.dtype(np.int64),
    "U8": np.dtype(np.uint8),
    "BOOL": np.dtype(np.bool_),
}


@dataclass(frozen=True, slots=True)
class Stored:
    """One tensor: its shard, element type, shape and the bytes [begin, end) of the file that hold it."""

    file: Path
    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    begin: int
    end: int

    def read(self) -> npt.NDArray[Any]:
        """A read-only view of the file; pages come in when they are touched."""
        if self.begin == self.end:
            return np.empty(self.shape, self.dtype)
        # frombuffer, as a plain array: np.memmap would keep its subclass through every operation.
        mapped = np.memmap(self.file, dtype=np.uint8, mode="r", offset=self.begin, shape=(self.end - self.begin,))
        return np.frombuffer(mapped, self.dtype).reshape(self.shape)


def find_tensors(folder: Path) -> dict[str, Stored]:
    """Every tensor of the checkpoint in `folder`, from its index or from a single model.safetensors.

    BadInput if there is neither, a shard is missing or damaged, or index and shards disagree.
    """
    index = folder / INDEX
    if not index.is_file():
        single = folder / SINGLE
        if not single.is_file():
            raise BadInput(f"{folder} holds no weights; accepted: {SINGLE}, or shards with {INDEX}")
        return read_header(single)
    weight_map = _weight_map(index)
    tensors: dict[str, Stored] = {}
    for name in sorted(set(weight_map.values())):
        if "/" in name or not (folder / name).is_file():
            raise BadInput(f"{index} names the shard {name!r}, which is not there; accepted: a file beside the index")
        for key, stored in read_header(folder / name).items():
            if weight_map.get(key) != name:
                raise BadInput(
                    f"{folder / name} holds {key}, which {INDEX} places in {weight_map.get(key)}; "
                    "accepted: an index that agrees with its shards"
                )
            tensors[key] = stored
    if missing := sorted(weight_map.keys() - tensors.keys()):
        raise BadInput(
            f"{folder / weight_map[missing[0]]} does not hold {missing[0]}; "
            f"accepted: every tensor that {INDEX} places in it"
        )
    return tensors


def read_header(path: Path) -> dict[str, Stored]:
    """The tensors of one shard; BadInput if header and file length do not fit together."""
    actual = path.stat().st_size
    with path.open("rb") as file:
        prefix = file.read(8)
        length = struct.unpack("<Q", prefix)[0] if len(prefix) == 8 else 0
        if not 2 <= length <= min(LONGEST_HEADER, actual - 8):
            raise BadInput(
                f"{path} has {actual} bytes and announces a header of {length}; accepted: a whole safetensors file"
            )
        header = parse_json(file.read(length), f"the header of {path}")
    try:
        header.pop("__metadata__", None)
        tensors = {name: _stored(path, entry, 8 + length) for name, entry in header.items()}
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise BadInput(f"the header of {path} is damaged ({error}); accepted: a safetensors header") from None
    promised = max((stored.end for stored in tensors.values()), default=8 + length)
    if promised != actual:
        raise BadInput(f"{path} has {actual} bytes; accepted: {promised}, as its header says (a whole download)")
    return tensors


def _stored(path: Path, entry: dict[str, Any], base: int) -> Stored:
    if entry["dtype"] not in DTYPES:
        raise ValueError(f"dtype {entry['dtype']!r}")
    dtype, shape = DTYPES[entry["dtype"]], tuple(entry["shape"])
    offsets = tuple(entry["data_offsets"])
    if not all(type(number) is int and number >= 0 for number in (*shape, *offsets)):
        raise ValueError(f"shape {list(shape)}, offsets {list(offsets)}")
    begin, end = (base + offset for offset in offsets)
    if not base <= begin <= end or math.prod(shape) * dtype.itemsize != end - begin:
        raise ValueError(f"{end - begin} bytes for {dtype} {list(shape)}")
    return Stored(file=path, dtype=dtype, shape=shape, begin=begin, end=end)


def _weight_map(index: Path) -> dict[str, str]:
    document = parse_json(index.read_bytes(), str(index))
    weight_map = document.get("weight_map") if isinstance(document, dict) else None
    if not isinstance(weight_map, dict) or not all(isinstance(name, str) for name in weight_map.values()):
        raise BadInput(f"{index} has no weight_map; accepted: the name of a shard for every tensor")
    return weight_map

"""Safetensors files, mapped into memory and never copied.

Departs from the safetensors package in two ways: bfloat16 comes as numpy arrays (ml_dtypes), and the writer
(`recipes.weights`) starts each large tensor on a 64-byte boundary so that a device client can use it in place.
Format: https://github.com/huggingface/safetensors (8-byte header length, JSON header, tensor bytes).
"""

from __future__ import annotations

import json
import math
import mmap
from pathlib import Path

import ml_dtypes
import numpy as np
import numpy.typing as npt

from serve.errors import ServeError

Array = npt.NDArray[np.generic]

DTYPES: dict[str, np.dtype[np.generic]] = {
    "F32": np.dtype(np.float32),
    "BF16": np.dtype(ml_dtypes.bfloat16),
    "F16": np.dtype(np.float16),
    "I32": np.dtype(np.int32),
    "I64": np.dtype(np.int64),
}

NUMPY = {str(dtype): dtype for dtype in DTYPES.values()}
ALIGNMENT = 64  # bytes; where a device client needs a host buffer to start to use it in place


class TensorFile:
    """Named tensors of one file; arrays are read-only views of the mapping and live as long as it does."""

    def __init__(self, path: Path, *, read_ahead: bool = False) -> None:
        """Map `path`; with `read_ahead` the kernel is asked to bring all pages in. ServeError if damaged."""
        try:
            with path.open("rb") as file:
                self._map = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
            length = int.from_bytes(self._map[:8], "little")
            if length > len(self._map) - 8:
                raise ValueError(f"a header of {length} bytes in a file of {len(self._map)}")
            header = json.loads(self._map[8 : 8 + length])
            if not isinstance(header, dict):
                raise ValueError("the header is no JSON object")
            header.pop("__metadata__", None)
            self._tensors = {name: self._view(8 + length, entry) for name, entry in header.items()}
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise ServeError(f"{path}: not a readable safetensors file ({error})") from error
        if read_ahead:
            self._map.madvise(mmap.MADV_WILLNEED)

    def _view(self, base: int, entry: dict[str, object]) -> Array:
        dtype = DTYPES[str(entry["dtype"])]
        shape = tuple(int(n) for n in entry["shape"])  # type: ignore[attr-defined]
        begin, end = (int(n) for n in entry["data_offsets"])  # type: ignore[attr-defined]
        count = math.prod(shape)
        if not 0 <= begin <= end <= len(self._map) - base or count * dtype.itemsize != end - begin:
            raise ValueError(f"bytes {begin} to {end} for {count} elements")
        return np.frombuffer(self._map, dtype, count, base + begin).reshape(shape)

    def __getitem__(self, name: str) -> Array:
        """The tensor called `name`; KeyError when the file has none of that name."""
        return self._tensors[name]

    def names(self) -> tuple[str, ...]:
        """Names in file order."""
        return tuple(self._tensors)

"""Safetensors files written tensor by tensor, with the data of large tensors on 64-byte boundaries.

Departs from the safetensors package: nothing is held but one tensor, and the header is padded so that the data
starts aligned. Tensors whose size is a multiple of 64 bytes come first and so stay aligned; the few small ones
follow. `serve.tensorfile` reads it, and so does every other safetensors reader.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from typing import IO

import numpy as np
import numpy.typing as npt

from serve.manifest import Parameter
from serve.tensorfile import ALIGNMENT, DTYPES

Array = npt.NDArray[np.generic]
CODES = {str(dtype): code for code, dtype in DTYPES.items()}


def write_tensors(file: IO[bytes], tensors: Iterable[Parameter], read: Callable[[Parameter], Array]) -> None:
    """Write `tensors` to `file`; `read` brings each one when its turn comes, with the promised shape and dtype."""
    header, ordered = header_of(tensors)
    file.write(header)
    for tensor in ordered:
        file.write(np.ascontiguousarray(read(tensor)).view(np.uint8).data)


def header_of(tensors: Iterable[Parameter]) -> tuple[bytes, list[Parameter]]:
    """The file's first bytes, padded to the alignment, and the tensors in the order in which their data follow."""
    ordered = sorted(tensors, key=lambda tensor: (size(tensor) % ALIGNMENT != 0, tensor.name))
    entries, offset = {}, 0
    for tensor in ordered:
        end = offset + size(tensor)
        entries[tensor.name] = {"dtype": CODES[tensor.dtype], "shape": tensor.shape, "data_offsets": (offset, end)}
        offset = end
    text = json.dumps(entries, separators=(",", ":")).encode()
    text += b" " * (-(8 + len(text)) % ALIGNMENT)
    return len(text).to_bytes(8, "little") + text, ordered


def size(tensor: Parameter) -> int:
    """Bytes of a tensor."""
    return int(np.prod(tensor.shape, dtype=np.int64)) * DTYPES[CODES[tensor.dtype]].itemsize

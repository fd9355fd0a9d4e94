"""torch tensors over memory that numpy sees too, and the tensors among what a graph returns."""

from __future__ import annotations

import warnings
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt
import torch

from serve.errors import ServeError
from serve.manifest import Parameter
from serve.tensorfile import NUMPY

Array = npt.NDArray[np.generic]


def over(array: Array) -> torch.Tensor:
    """A tensor over the memory of `array`, not a copy; where that is a read-only mapping, nobody may write."""
    bfloat16 = array.dtype == ml_dtypes.bfloat16
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="The given NumPy array is not writable")
        tensor = torch.from_numpy(array.view(np.int16) if bfloat16 else array)
    return tensor.view(torch.bfloat16) if bfloat16 else tensor


def zeros(parameter: Parameter) -> Array:
    """An array for an input or a state."""
    return np.zeros(parameter.shape, NUMPY[parameter.dtype])


def leading(result: Any, count: int) -> list[torch.Tensor]:
    """The first `count` tensors of what a graph returned: a bare tensor, or lists and tuples of them.

    Whether state that stays on the device is returned as well differs between builders and releases.
    """
    found = _flat(result)
    if len(found) < count:
        raise ServeError(f"a graph returned {len(found)} tensors; accepted: {count} or more")
    return found[:count]


def _flat(result: Any) -> list[torch.Tensor]:
    if isinstance(result, torch.Tensor):
        return [result]
    if isinstance(result, (list, tuple)):
        return [tensor for part in result for tensor in _flat(part)]
    raise ServeError(f"a graph returned a {type(result).__name__}; accepted: tensors")

"""Buffers full of noise, as a device may hold them before anyone wrote there."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest

from serve.runtime import cpu
from serve.runtime.pjrt import aligned_zeros


def fill_buffers(patch: pytest.MonkeyPatch) -> None:
    """Let runtimes that load from now on start with noise where they would have zeros."""
    random = np.random.default_rng(0)

    def noise(shape: tuple[int, ...], dtype: np.dtype[np.generic]) -> npt.NDArray[np.generic]:
        array = aligned_zeros(shape, dtype)
        array[...] = random.normal(0.0, 100.0, shape).astype(dtype)
        return array

    patch.setattr(cpu, "aligned_zeros", noise)

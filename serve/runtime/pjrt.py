"""jaxlib's PJRT client for XLA:CPU, without jax.

The names used here are not jaxlib's public API. They stand in this file only, jaxlib is pinned, and
tests/serve/test_pjrt.py fails with a clear message when an upgrade moves one of them.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
import numpy.typing as npt

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "1")  # the client logs its device list at start otherwise

from jaxlib import _hlo, _jax, xla_client

from serve.tensorfile import ALIGNMENT

Array = npt.NDArray[np.generic]


class _OneDevice(xla_client.SingleDeviceSharding):  # type: ignore[misc]
    """The part of jax.sharding.SingleDeviceSharding that `batched_device_put` reads."""

    memory_kind = None

    def _to_xla_hlo_sharding(self, _dimensions: int) -> Any:
        return _hlo.HloSharding.replicate()


class Program:
    """A loaded executable."""

    def __init__(self, executable: Any) -> None:
        self._executable = executable

    def run(self, arguments: Sequence[Any]) -> list[Any]:
        """Execute; arguments and results are device buffers in parameter and output order."""
        return self._executable.execute(arguments)  # type: ignore[no-any-return]


class Client:
    """One XLA:CPU client with one device; calls block until their result is there."""

    def __init__(self) -> None:
        self._client = xla_client.make_cpu_client(asynchronous=False)
        self._device = self._client.devices()[0]
        self._sharding = _OneDevice(self._device)

    def put(self, array: Array) -> Any:
        """A device buffer over `array`: in place if it is 64-byte aligned and contiguous, a copy otherwise.

        An in-place buffer sees later writes to `array`, which is how step inputs are passed.
        """
        shape = SimpleNamespace(shape=array.shape, dtype=array.dtype, ndim=array.ndim, size=array.size, weak_type=False)
        return _jax.batched_device_put(
            shape,
            self._sharding,
            [array],
            [self._device],
            True,
            False,
            _jax.HostBufferSemantics.ZERO_COPY,
            True,
        )

    def compile(self, module: bytes) -> bytes:
        """Compile a StableHLO module (text or bytecode) to a serialized executable for this host's CPU."""
        executable = self._client.compile_and_load(module, [self._device], _options())
        return self._client.serialize_executable(executable)  # type: ignore[no-any-return]

    def load(self, executable: bytes) -> Program:
        """Load what `compile` returned, here or on a host with the same CPU features.

        Loading runs code: only bytes whose digest a trusted manifest names may come here.
        """
        return Program(self._client.deserialize_executable(executable, [self._device], _options()))


def _options() -> Any:
    options = xla_client.CompileOptions()
    options.env_option_overrides = [("xla_cpu_prefer_vector_width", 512)]
    return options


def to_numpy(buffer: Any) -> Array:
    """A read-only view of a device buffer; valid as long as the buffer is."""
    array, _copied = buffer._single_device_array_to_np_array_did_copy()
    return array  # type: ignore[no-any-return]


def aligned_zeros(shape: tuple[int, ...], dtype: np.dtype[np.generic]) -> Array:
    """Zeros that the client can use in place."""
    size = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
    raw = np.zeros(size + ALIGNMENT, np.uint8)
    start = -raw.ctypes.data % ALIGNMENT
    return raw[start : start + size].view(dtype).reshape(shape)


def stablehlo_from_hlo(proto: bytes) -> bytes:
    """An HLO module proto as StableHLO text; its input-output aliases become argument attributes."""
    module = _jax.mlir.xla_computation_to_mlir_module(xla_client.XlaComputation(proto))
    return module.encode() if isinstance(module, str) else module

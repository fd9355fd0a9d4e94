"""jaxlib's PJRT client for XLA:CPU, without jax.

The names used here are not jaxlib's public API. They stand in this file only, jaxlib is pinned, and
tests/serve/test_pjrt.py fails with a clear message when an upgrade moves one of them.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
import numpy.typing as npt

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "1")  # the client logs its device list at start otherwise

from jaxlib import _hlo, _jax, xla_client

from serve.tensorfile import ALIGNMENT

Array = npt.NDArray[np.generic]


def _shape(array: Array) -> SimpleNamespace:
    """What jaxlib reads of a jax.core.ShapedArray."""
    return SimpleNamespace(shape=array.shape, dtype=array.dtype, ndim=array.ndim, size=array.size, weak_type=False)


# Buffers know their own shape: what is written on the wrapping of a result is never looked at.
_ANY = _shape(np.zeros((), np.float32))


_OVERRIDES: dict[str, int | bool | str] = {"xla_cpu_prefer_vector_width": 512}


class OptionError(ValueError):
    """XLA's own sentence about why it does not compile with these options."""


class _Placement(xla_client.SingleDeviceSharding):  # type: ignore[misc]
    """The part of jax.sharding.SingleDeviceSharding that `batched_device_put` reads."""

    memory_kind = None

    def _to_xla_hlo_sharding(self, _dimensions: int) -> Any:
        return _hlo.HloSharding.replicate()


class Program:
    """A loaded executable, run by every rank at once."""

    def __init__(self, executable: Any, placement: Any) -> None:
        self._executable = executable
        # Without a handler of its own, each result would be wrapped with the help of jax, looked for at every step.
        handler = _jax.array_result_handler(_ANY, placement, True, True)
        self._handlers = [handler] * len(executable.get_output_layouts())

    def run(self, arguments: Sequence[Any]) -> list[Any]:
        """Execute; arguments and results are device buffers in parameter and output order."""
        results = self._executable.execute_sharded(arguments)
        return results.consume_with_handlers(self._handlers)  # type: ignore[no-any-return]


class Client:
    """One XLA:CPU client with a device per rank; calls block until their result is there.

    A program compiled here is one rank's; all ranks run it together and meet in its all-reduces.
    """

    def __init__(self, ranks: int = 1) -> None:
        self._client = xla_client.make_cpu_client(asynchronous=False, num_devices=ranks)
        self._devices = self._client.devices()
        self._placements = [_Placement(device) for device in self._devices]
        everywhere = _jax.GSPMDSharding(self._devices, _hlo.HloSharding.replicate())
        self._placement = everywhere if ranks > 1 else self._placements[0]

    def put(self, arrays: Sequence[Array]) -> Any:
        """A device buffer over one array per rank: in place where it is 64-byte aligned and contiguous, else a copy.

        An in-place buffer sees later writes to its array, which is how step inputs are passed; ranks may share one.
        """
        ranked = zip(arrays, self._devices, self._placements, strict=True)
        shards = [_put(array, device, placement) for array, device, placement in ranked]
        if len(shards) == 1:
            return shards[0]
        return _jax.ArrayImpl(_ANY, self._placement, shards, True, _skip_checks=True)

    def compile(self, module: bytes, flags: Sequence[str] = ()) -> bytes:
        """Compile a StableHLO module (text or bytecode) to a serialized executable for this host's CPU.

        `flags` are XLA's debug options, each `name=value`, and replace this client's own. With any, whatever XLA says
        against the compile is an OptionError: for a value that it cannot use it has no error of its own.
        """
        options = self._options()
        options.env_option_overrides = sorted((_OVERRIDES | _typed_options(flags)).items())
        try:
            executable = self._client.compile_and_load(module, self._devices, options)
        except _jax.JaxRuntimeError as error:
            if flags:
                raise OptionError(str(error).partition("\n")[0]) from error
            raise
        return self._client.serialize_executable(executable)  # type: ignore[no-any-return]

    def load(self, executable: bytes) -> Program:
        """Load what `compile` returned, here or on a host with the same CPU features.

        Loading runs code: only bytes whose digest a trusted manifest names may come here.
        """
        return Program(self._client.deserialize_executable(executable, self._devices, self._options()), self._placement)

    def _options(self) -> Any:
        ranks = len(self._devices)
        options = xla_client.CompileOptions()
        options.env_option_overrides = list(_OVERRIDES.items())
        options.num_replicas = ranks
        options.device_assignment = xla_client.DeviceAssignment.create(np.arange(ranks).reshape(ranks, 1))
        return options


def _typed_options(flags: Sequence[str]) -> dict[str, int | bool | str]:
    """Flags as XLA wants them: numbers and truth values are no text."""
    return {name: _typed(value) for name, _, value in (flag.partition("=") for flag in flags)}


def _typed(value: str) -> int | bool | str:
    if value in ("true", "false"):
        return value == "true"
    # What no 64 bits hold stays text, for XLA to refuse.
    return int(value) if re.fullmatch(r"\d{1,18}", value) else value


def _put(array: Array, device: Any, placement: Any) -> Any:
    shape = _shape(array)
    zero_copy = _jax.HostBufferSemantics.ZERO_COPY
    return _jax.batched_device_put(shape, placement, [array], [device], True, False, zero_copy, True)


class _Export:
    """A device buffer as the DLPack protocol wants to be asked for it."""

    def __init__(self, buffer: Any) -> None:
        self._buffer = buffer

    def __dlpack__(self, **_: Any) -> Any:
        return _jax.buffer_to_dlpack_managed_tensor(self._buffer)

    def __dlpack_device__(self) -> tuple[int, int]:
        return 1, 0  # host memory


def to_numpy(buffer: Any) -> Array:
    """A read-only view of a device buffer (the first rank's); valid as long as the buffer is."""
    if len(buffer._arrays) > 1:
        buffer = buffer._arrays[0]
    try:
        return np.from_dlpack(_Export(buffer))
    except (BufferError, RuntimeError):
        # numpy's DLPack knows no bfloat16; this way round, jaxlib looks for jax each time, which costs 0.1 ms.
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

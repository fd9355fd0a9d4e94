"""jaxlib's XLA:CPU client as the device: one program, N ranks. The names used are jaxlib 0.10's private ones."""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import cache
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from torch import Tensor

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "1")

import ml_dtypes
from jaxlib import _hlo, _jax, xla_client


def _numpy(tensor: Tensor) -> Any:
    if tensor.dtype == torch.bfloat16:
        return tensor.view(torch.int16).numpy().view(ml_dtypes.bfloat16)
    return tensor.numpy()


def _shape(array: Any) -> SimpleNamespace:
    return SimpleNamespace(shape=array.shape, dtype=array.dtype, ndim=array.ndim, size=array.size, weak_type=False)


class _Placement(xla_client.SingleDeviceSharding):  # type: ignore[misc]
    memory_kind = None

    def _to_xla_hlo_sharding(self, _dimensions: int) -> Any:
        return _hlo.HloSharding.replicate()


class _Client:
    def __init__(self, ranks: int) -> None:
        self.client = xla_client.make_cpu_client(asynchronous=False, num_devices=ranks)
        self.devices = self.client.devices()
        self.placements = [_Placement(device) for device in self.devices]
        everywhere = _jax.GSPMDSharding(self.devices, _hlo.HloSharding.replicate())
        self.placement = everywhere if ranks > 1 else self.placements[0]

    def put(self, tensors: Sequence[Tensor]) -> Any:
        shards = [
            _jax.batched_device_put(
                _shape(array), place, [array], [device], True, False, _jax.HostBufferSemantics.ZERO_COPY, True
            )
            for array, device, place in zip(map(_numpy, tensors), self.devices, self.placements, strict=True)
        ]
        if len(shards) == 1:
            return shards[0]
        return _jax.ArrayImpl(_shape(_numpy(tensors[0])), self.placement, shards, True, _skip_checks=True)


@cache
def _client(ranks: int) -> _Client:
    return _Client(ranks)


class Program:
    """A compiled HLO module that `ranks` ranks run together; `ranks` 1 for a module without collectives."""

    def __init__(self, hlo: bytes, ranks: int) -> None:
        self.ranks = ranks
        client = _client(ranks)
        module = _jax.mlir.xla_computation_to_mlir_module(xla_client.XlaComputation(hlo))
        options = xla_client.CompileOptions()
        options.num_replicas = ranks
        options.device_assignment = xla_client.DeviceAssignment.create(np.arange(ranks).reshape(ranks, 1))
        code = module.encode() if isinstance(module, str) else module
        self._executable = client.client.compile_and_load(code, client.devices, options)
        handler = _jax.array_result_handler(_shape(np.zeros((), np.float32)), client.placement, True, True)
        self._handlers = [handler] * len(self._executable.get_output_layouts())

    def run(self, arguments: Sequence[Sequence[Tensor]]) -> list[list[Tensor]]:
        """arguments[rank][parameter] to results[rank][output]; results are the caller's own memory."""
        client = _client(self.ranks)
        contiguous = [[one.detach().contiguous() for one in row] for row in arguments]
        buffers = [client.put(column) for column in zip(*contiguous, strict=True)]
        results = self._executable.execute_sharded(buffers).consume_with_handlers(self._handlers)
        shards = [list(result._arrays) if self.ranks > 1 else [result] for result in results]
        return [[_tensor(column[rank]) for column in shards] for rank in range(self.ranks)]


def _tensor(buffer: Any) -> Tensor:
    return torch.utils.dlpack.from_dlpack(_jax.buffer_to_dlpack_managed_tensor(buffer)).clone()

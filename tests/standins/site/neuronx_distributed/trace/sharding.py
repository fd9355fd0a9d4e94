"""Stand-in for the checkpoint sharding of trace.trace; SDK document, section 3.2, its silences included.

A key the model does not know is dropped with a Python warning, a parameter the checkpoint lacks is skipped without
one, and whatever is no parameter of a parallel layer keeps the checkpoint's tensor and dtype. The dict that is given
is changed.
"""

from __future__ import annotations

import warnings
from typing import Any

from torch import Tensor, nn

from neuronx_distributed.parallel_layers.layers import BaseParallelLinear, SPMDRank

SHARDED = (BaseParallelLinear, SPMDRank)
Checkpoint = dict[str, Tensor]


def preprocess_checkpoint(model: nn.Module, checkpoint: Checkpoint) -> None:
    """Pre-shard hooks, then the removal of keys that `state_dict()` of the model does not have."""
    _invoke_preshard_hook(model, checkpoint, "")
    unknown = [key for key in checkpoint if key not in model.state_dict()]
    warnings.warn(f"Removing redundant keys from checkpoint: {unknown}", stacklevel=2)
    for key in unknown:
        checkpoint.pop(key)


def get_sharded_checkpoint(
    checkpoint: Checkpoint, model: nn.Module, rank: int, tp_degree: int, is_cached: bool = False
) -> None:
    """Cut the parallel layers' parameters in `checkpoint` to the share of `rank`."""
    if not is_cached:
        preprocess_checkpoint(model, checkpoint)
    shard_children(model, checkpoint, "", rank)


def shard_children(module: nn.Module, checkpoint: Checkpoint, prefix: str, rank: int) -> None:
    """The same for a module and what is below it."""
    for name, child in module.named_children():
        shard_children(child, checkpoint, f"{prefix}{name}.", rank)
    if isinstance(module, SHARDED):
        for name, parameter in module.named_parameters(recurse=False):
            if prefix + name in checkpoint:
                _shard(parameter, checkpoint, prefix + name, rank)


def cast_weights(checkpoint: Checkpoint, model: nn.Module) -> None:
    """Bring values to the dtype of their parameter, as ModelBuilder does; buffers keep theirs."""
    for name, parameter in model.named_parameters():
        if name in checkpoint:
            checkpoint[name] = checkpoint[name].to(parameter.dtype)


def _shard(parameter: Any, checkpoint: Checkpoint, name: str, rank: int) -> None:
    tensor = checkpoint[name]
    if getattr(parameter, "tensor_model_parallel", False):
        parts = parameter.num_partitions
        size = tensor.shape[parameter.partition_dim] // parts
        tensor = tensor.narrow(parameter.partition_dim, rank % parts * size, size)
    if tensor.shape != parameter.shape:
        raise RuntimeError(f"expected shape {parameter.shape} for {name} but found {tensor.shape}")
    checkpoint[name] = tensor


def _invoke_preshard_hook(module: nn.Module, checkpoint: Checkpoint, prefix: str) -> None:
    if hook := getattr(module, "preshard_hook", None):
        hook(checkpoint, f"{prefix}weight")
        return
    for name, child in module.named_children():
        _invoke_preshard_hook(child, checkpoint, f"{prefix}{name}.")

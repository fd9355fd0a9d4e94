"""Weights into a module that is handed to the SDK: mapped from the stored file, and every one of them accounted for.

The SDK's own loaders drop what they do not know and skip what they miss, with a warning at most. Here every parameter
of the module is filled exactly once, in its shape and dtype, and every stored tensor is used; anything else is an error
that names the tensor.
"""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor, nn

from ledger.errors import BadInput, FoundryError
from recipes.neuron.module import StepModule


def fill(module: StepModule, path: Path) -> None:
    """Give every weight of `module` its tensor of the safetensors file at `path`, as a view of the mapped file.

    BadInput names a tensor that is missing, left over or of another shape or dtype.
    """
    from safetensors import safe_open

    with safe_open(str(path), framework="pt") as file:
        stored = set(file.keys())
        _check_names(path, stored, set(module.weight_keys))
        for name, key in module.weight_keys.items():
            place(module, key, _checked(file.get_tensor(name), module.get_parameter(key), path, name))
    check_filled(module)


def fill_empty(module: StepModule) -> None:
    """Give every weight of `module` memory of its size that nobody writes to: the graph takes weights as arguments."""
    for key in module.weight_keys.values():
        place(module, key, torch.empty_like(module.get_parameter(key), device="cpu"))
    check_filled(module)


def place(module: nn.Module, key: str, tensor: Tensor) -> None:
    """Make `tensor` the parameter called `key`."""
    owner, _, name = key.rpartition(".")
    setattr(module.get_submodule(owner), name, nn.Parameter(tensor, requires_grad=False))


def check_filled(module: nn.Module) -> None:
    """FoundryError for anything that is still without memory, and for any buffer: no loader would fill it."""
    left = [name for name, tensor in module.named_parameters() if tensor.is_meta]
    left += [name for name, _ in module.named_buffers()]
    if left:
        raise FoundryError(f"{left[0]} of the module was given no value; every parameter must be, and no buffer may be")


def _check_names(path: Path, stored: set[str], wanted: set[str]) -> None:
    accepted = f"accepted: a tensor for each of the graph's {len(wanted)} weights, and no other"
    if missing := sorted(wanted - stored):
        raise BadInput(f"{path}: {missing[0]} is missing; {accepted}")
    if unused := sorted(stored - wanted):
        raise BadInput(f"{path}: {unused[0]} has no use in the graph; {accepted}")


def _checked(tensor: Tensor, wanted: Tensor, path: Path, name: str) -> Tensor:
    if (tensor.shape, tensor.dtype) != (wanted.shape, wanted.dtype):
        raise BadInput(
            f"{path}: {name} is {tensor.dtype} {list(tensor.shape)}; accepted: {wanted.dtype} {list(wanted.shape)}"
        )
    return tensor

"""Which buffers are states: those that forward assigns anew; SDK document, section 3.4."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils import _pytree


def assigned_buffers(model: nn.Module, inputs: tuple[Tensor, ...]) -> tuple[list[str], Any]:
    """Names of the buffers that a call replaces, and what it returns; the buffers are put back."""
    before = dict(model.named_buffers())
    try:
        with torch.no_grad():
            returned = model(*inputs)
        after = dict(model.named_buffers())
    finally:
        for name, value in before.items():
            owner, _, leaf = name.rpartition(".")
            model.get_submodule(owner)._buffers[leaf] = value
    changed = [name for name, value in before.items() if after[name] is not value]
    for name in changed:
        if (after[name].shape, after[name].dtype) != (before[name].shape, before[name].dtype):
            raise ValueError(f"buffer {name} changes its shape or dtype; a state must keep both")
    return changed, returned


@contextmanager
def states_as_parameters(model: nn.Module, names: list[str]) -> Iterator[dict[nn.Parameter, int]]:
    """Inside, these buffers are parameters, and forward returns (its result, their new values); yields the aliases.

    An alias is an index less the number of forward's own outputs.
    """
    places = [(model.get_submodule(name.rpartition(".")[0]), name.rpartition(".")[2]) for name in names]
    owners = {id(owner): owner for owner, _ in places} | {id(model): model}
    classes = {key: owner.__class__ for key, owner in owners.items()}
    values = [owner._buffers.pop(leaf) for owner, leaf in places]
    for (owner, leaf), value in zip(places, values, strict=True):
        assert value is not None
        owner.register_parameter(leaf, nn.Parameter(value, requires_grad=False))
    leaves = {key: {leaf for owner, leaf in places if id(owner) == key} for key in owners}
    for key, owner in owners.items():
        owner.__class__ = _catching(classes[key], leaves[key])
    model.__class__ = _returning(model.__class__, places)
    try:
        yield {owner._parameters[leaf]: i for i, (owner, leaf) in enumerate(places)}  # type: ignore[misc]
    finally:
        for key, owner in owners.items():
            owner.__class__ = classes[key]
        for (owner, leaf), value in zip(places, values, strict=True):
            del owner._parameters[leaf]
            owner._buffers[leaf] = value


def _catching(kind: type[nn.Module], leaves: set[str]) -> type[nn.Module]:
    """The class with assignments to these names kept on the instance, where reading finds them first."""

    def assign(self: nn.Module, name: str, value: Any) -> None:
        if name in leaves:
            self.__dict__[name] = value
        else:
            kind.__setattr__(self, name, value)

    return type(kind.__name__, (kind,), {"__setattr__": assign})


def _returning(kind: type[nn.Module], places: list[tuple[nn.Module, str]]) -> type[nn.Module]:
    def forward(self: nn.Module, *inputs: Tensor) -> Any:
        returned = _pytree.tree_leaves(kind.forward(self, *inputs))
        return [*returned, *(owner.__dict__.pop(leaf) for owner, leaf in places)]

    return type(kind.__name__, (kind,), {"forward": forward})

"""dynamic_batch: any batch on dimension 0, run in slices of the traced one (section 2.3)."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from neuron_standin.metaneff import MetaNeff

Run = Callable[[list[Tensor]], list[Tensor]]


def in_slices(metaneff: MetaNeff, inputs: Sequence[Tensor], run: Run) -> list[Tensor]:
    """`run` on ceil(b / traced b) slices of all inputs, the last one padded with zeros; outputs joined and cut."""
    traced = next(slot.shape[0] for slot in metaneff.parameters if slot.kind == "input")
    batch = inputs[0].shape[0]
    if any(one.shape[0] != batch for one in inputs):
        raise RuntimeError(f"dynamic batch: inputs have batches {[one.shape[0] for one in inputs]}")
    collected: list[list[Tensor]] = []
    for start in range(0, batch, traced):
        parts = [one[start : start + traced] for one in inputs]
        padding = [one.new_zeros((traced - one.shape[0], *one.shape[1:])) for one in parts]
        collected.append(run([torch.cat(pair) for pair in zip(parts, padding, strict=True)]))
    return [torch.cat(column)[:batch] for column in zip(*collected, strict=True)]

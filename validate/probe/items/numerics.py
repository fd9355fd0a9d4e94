"""Arithmetic at the edges of float32, with a compiler flag and without."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import torch

from validate.probe.items import sdk
from validate.probe.question import Answer, Work

_CAP = 30.0
_FLAG = "--enable-saturate-infinity"


class Edges(torch.nn.Module):
    """A soft-cap of large values, and softmax of scores under a mask, as the step graph writes them."""

    def forward(self, x: torch.Tensor, scores: torch.Tensor, mask: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """[N], [R, C] and [R, C] to [N] and [R, C]."""
        return torch.tanh(x / _CAP) * _CAP, torch.softmax(scores + mask, dim=-1)


def saturate_infinity(work: Work) -> Answer:
    """Outputs with and without the flag, against each other and against the CPU."""
    inputs = _inputs()
    expected = Edges()(*inputs)
    found = {name: _run(work, inputs, flags) for name, flags in (("without", ()), ("with", (_FLAG,)))}
    names = ("soft_cap", "masked_softmax")
    between = {name: _distance(a, b) for name, a, b in zip(names, found["without"], found["with"], strict=True)}
    evidence: dict[str, Any] = {
        "between": {name: _json(value) for name, value in between.items()},
        "to_the_cpu": {
            which: {name: _json(_distance(a, b)) for name, a, b in zip(names, expected, outputs, strict=True)}
            for which, outputs in found.items()
        },
        "soft_cap_inputs": sdk.numbers(inputs[0], 32),
        "soft_cap": {which: sdk.numbers(outputs[0], 32) for which, outputs in found.items()},
    }
    changed = [f"{name} by {_json(value)}" for name, value in between.items() if value != 0]
    return Answer(f"yes: {', '.join(changed)}" if changed else "no", evidence)


def _inputs() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Magnitudes up to the largest float32; rows that are open, half masked, masked but for one, and masked whole."""
    largest = torch.finfo(torch.float32).max
    magnitudes = [0.0, 1.0, 29.0, 100.0, 1e4, 1e10, 1e30, largest]
    x = torch.tensor([*magnitudes, *(-value for value in magnitudes)])
    scores = torch.linspace(-1e4, 1e4, 32).reshape(4, 8)
    mask = torch.zeros(4, 8)
    mask[1, 4:], mask[2, 1:], mask[3] = -largest, -largest, -largest
    return x, scores, mask


def _run(work: Work, inputs: tuple[torch.Tensor, ...], flags: tuple[str, ...]) -> list[torch.Tensor]:
    path = sdk.save(sdk.trace(Edges(), inputs, work, *flags), Path(work.own) / f"edges{len(flags)}.pt")
    return sdk.outputs(sdk.load(path)(*inputs))


def _distance(a: torch.Tensor, b: torch.Tensor) -> float:
    """The largest absolute difference; infinite where one is not a number and the other is."""
    if not torch.equal(a.isnan(), b.isnan()):
        return math.inf
    same = (a == b) | a.isnan()
    return float(torch.where(same, 0.0, (a - b).abs()).max())


def _json(value: float) -> float | str:
    return value if math.isfinite(value) else str(value)

"""Loads what nxd_build left in the current folder, knowing torch_neuronx only, and prints what it saw."""

# mypy: disallow-untyped-calls=False
from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch_neuronx  # noqa: F401 - registers the operators of saved models

from tests.standins import nxd_toy

FOLDER = Path.cwd()
START = torch.tensor([0], dtype=torch.int32)
WHOLE = nxd_toy.values()
INPUTS = [np.random.default_rng(1).normal(size=(rows, nxd_toy.WIDTH)).astype(np.float32) for rows in (4, 1, 1)]


def load(name: str) -> Any:
    """A saved model, not initialized."""
    return torch.jit.load(FOLDER / f"{name}.pt")


def ranks(tp: int, **changed: Any) -> list[dict[str, torch.Tensor]]:
    """Every rank's weights; those given as None are left out, others added."""
    rows = [{**nxd_toy.share(WHOLE, rank, tp), **changed} for rank in range(tp)]
    return [{name: torch.from_numpy(one) for name, one in row.items() if one is not None} for row in rows]


def run(model: Any, inputs: list[Any] = INPUTS) -> list[Any]:
    """Outputs of one call after the other."""
    return [model(torch.from_numpy(x)).tolist() for x in inputs]


def refusal(call: Callable[[], object]) -> str:
    """Type and text of what a call raises; "" when it does not."""
    try:
        call()
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return ""


def toy(tp: int) -> dict[str, Any]:
    """Everything about one of the two toys."""
    model = load(f"toy{tp}")
    facts: dict[str, Any] = {"uninitialized": refusal(lambda: run(model))}
    model.nxd_model.initialize(ranks(tp), START)
    facts["outputs"] = run(model)
    facts["type"] = type(model(torch.zeros(1, nxd_toy.WIDTH))).__name__
    model.nxd_model.initialize(ranks(tp, unknown=np.zeros(1, np.float32)), START)
    facts["again"] = run(model)
    facts["shape"] = refusal(lambda: model(torch.zeros(2, nxd_toy.WIDTH)))
    facts["dtype"] = refusal(lambda: model(torch.zeros(1, nxd_toy.WIDTH, dtype=torch.float64)))
    torch.jit.save(model, FOLDER / "saved.pt")
    saved = load("saved")
    saved.nxd_model.initialize_with_saved_weights(torch.tensor(0))
    facts["saved"] = run(saved)
    model.nxd_model.initialize(ranks(tp, **{"down.weight": None}), START)
    facts["missing"] = run(model)
    model.nxd_model.initialize(ranks(tp, **{"down.weight": np.zeros((1, 1), np.float32)}), START)
    facts["misshapen"] = refusal(lambda: run(model))
    facts["rank_count"] = refusal(lambda: model.nxd_model.initialize(ranks(tp) * 2, START))
    return facts


def main() -> None:
    """Load and call everything."""
    scaled, frozen, arity = load("scaled"), load("frozen"), load("arity")
    scaled.nxd_model.initialize(ranks(1), START)
    place = [{"place.rank": torch.tensor([rank], dtype=torch.int32)} for rank in range(2)]
    frozen.nxd_model.initialize(place, START)
    arity.nxd_model.initialize([{}], START)
    one = torch.ones(1, nxd_toy.WIDTH)
    facts = {
        "toy1": toy(1),
        "toy2": toy(2),
        "scaled": run(scaled, INPUTS[1:]),
        "frozen": [found[0, 0].item() for found in frozen(one)],
        "arity": [arity(one, one)[0].tolist(), refusal(lambda: arity(one))],
    }
    print(json.dumps(facts))

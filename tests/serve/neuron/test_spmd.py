"""Weights of ModelBuilder artifacts: those of the graphs, all and only, in their shapes and dtypes; and the call."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file

from serve.errors import ServeError
from serve.manifest import Manifest
from serve.runtime.neuron.spmd import Spmd, rank_weights, weight_keys
from tests.serve.neuron.fakes import manifest, parameter

WEIGHTS = [
    parameter("a.q.weight", "weight", 2, 3, dtype="bfloat16"),
    parameter("a.layer_scalar", "weight", 1),
]
STORED = {"a.q.weight": torch.randn(2, 3).bfloat16(), "a.layer_scalar": torch.tensor([0.3])}


def ranked(folder: Path, stored: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    made_for, path = manifest("nxd", weights=WEIGHTS), folder / "tp0.safetensors"
    save_file(stored, path)
    return rank_weights(path, made_for, weight_keys(folder, made_for))


def test_weights_get_the_sdks_names_and_their_own_values(tmp_path: Path) -> None:
    made = ranked(tmp_path, STORED)
    assert set(made) == {"step.a.q.weight", "step.a.layer_scalar"}
    assert all(torch.equal(made[f"step.{name}"], tensor) for name, tensor in STORED.items())


@pytest.mark.parametrize(
    ("stored", "sentence"),
    [
        ({"a.layer_scalar": None}, "found no a.layer_scalar; accepted: the weights of the graphs, all"),
        ({"b.q.weight": torch.ones(1)}, "found b.q.weight, which no graph has; accepted"),
        (
            {"a.q.weight": torch.ones(3, 2).bfloat16()},
            "weight a.q.weight is bfloat16 (3, 2); the graphs accept bfloat16 (2, 3)",
        ),
        (
            {"a.layer_scalar": torch.ones(1).bfloat16()},
            "weight a.layer_scalar is bfloat16 (1,); the graphs accept float32 (1,)",
        ),
    ],
)
def test_weights_that_a_loader_would_drop_or_miss_are_refused(
    tmp_path: Path, stored: dict[str, torch.Tensor | None], sentence: str
) -> None:
    with pytest.raises(ServeError) as refused:
        ranked(tmp_path, {name: tensor for name, tensor in (STORED | stored).items() if tensor is not None})
    assert sentence in str(refused.value)


def with_keys(**keys: Any) -> Manifest:
    made_for = manifest("nxd", weights=WEIGHTS)
    document = made_for.model_dump()
    document["neuron"]["weight_keys"] |= keys
    document["neuron"]["weight_keys"] = {k: v for k, v in document["neuron"]["weight_keys"].items() if v is not None}
    return Manifest.model_validate(document)


@pytest.mark.parametrize(
    ("keys", "sentence"),
    [
        ({"a.q.weight": None}, "found no a.q.weight; accepted: the weights of its graphs"),
        ({"b.q.weight": "step.7"}, "found b.q.weight, which no graph has"),
        (
            {"a.q.weight": "step.a.layer_scalar"},
            "found step.a.layer_scalar twice; accepted: a name",
        ),
    ],
)
def test_names_must_be_one_to_one(tmp_path: Path, keys: dict[str, str | None], sentence: str) -> None:
    with pytest.raises(ServeError) as refused:
        weight_keys(tmp_path, with_keys(**keys))
    assert f"{tmp_path}/manifest.json: neuron.weight_keys: {sentence}" in str(refused.value)


class Inner(torch.nn.Module):
    """Takes a list; tells its length as a positive number."""

    def forward(self, inputs: list[torch.Tensor]) -> tuple[torch.Tensor]:
        return (torch.tensor([len(inputs)]),)


class Outer(torch.nn.Module):
    """TorchScript of it takes as many tensors as it was traced with; tells their number as a negative one."""

    def __init__(self) -> None:
        super().__init__()
        self.nxd_model = torch.jit.script(Inner())

    def forward(self, *inputs: torch.Tensor) -> torch.Tensor:
        count: torch.Tensor = self.nxd_model(list(inputs))[0]
        return -count


def test_graphs_with_different_numbers_of_inputs_are_both_reached(tmp_path: Path) -> None:
    """Traced with decode's inputs, which were added last."""
    tensors = [torch.zeros(1) for _ in range(8)]
    torch.jit.save(torch.jit.trace(Outer(), tuple(tensors[:7])), tmp_path / "model.pt")  # type: ignore[no-untyped-call]
    model = Spmd(torch.jit.load(tmp_path / "model.pt"))  # type: ignore[no-untyped-call]
    assert model("decode", tensors[:7]).item() == -7
    assert model("prefill", tensors).item() == 8


def test_a_model_that_takes_any_number_is_called_as_documented() -> None:
    model = Spmd(Outer())
    assert model("prefill", [torch.zeros(1)] * 8).item() == -8
    assert model("decode", [torch.zeros(1)] * 7).item() == -7

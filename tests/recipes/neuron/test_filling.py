"""Weights that are handed over: mapped, each exactly once, and any mismatch named."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from ledger.errors import BadInput, FoundryError
from recipes.neuron.filling import check_filled, fill
from recipes.neuron.module import StepModule, step_module
from serve.tensorfile import TensorFile
from tests.build import TEXT_CONFIG
from tests.recipes.neuron.conftest import ReceiptsOf
from tests.recipes.neuron.test_module import signature_of

NORM = "layers.0.input_layernorm.weight"


@pytest.fixture
def module(receipts_of: ReceiptsOf) -> StepModule:
    """A decode step without weights."""
    return step_module(TEXT_CONFIG, signature_of(receipts_of, "decode"), 1, "float32", "device")


def test_every_weight_has_the_files_bytes(module: StepModule, weight_file: Path) -> None:
    fill(module, weight_file)
    stored = TensorFile(weight_file)
    for name, key in module.weight_keys.items():
        assert module.get_parameter(key).detach().numpy().tobytes() == stored[name].tobytes(), name


def _resident() -> int:
    fields = Path("/proc/self/statm").read_text().split()
    return int(fields[1]) * 4096


def test_weights_are_mapped_and_not_copied(tmp_path: Path) -> None:
    # 256 MB of one weight: filling takes no memory until somebody reads.
    size = 64 << 20
    save_file({"w": torch.zeros(size)}, tmp_path / "w.safetensors")
    owner = nn.Module()
    owner.w = nn.Parameter(torch.empty(size, device="meta"))
    owner.weight_keys = {"w": "w"}  # type: ignore[assignment]
    before = _resident()
    fill(owner, tmp_path / "w.safetensors")  # type: ignore[arg-type]
    assert _resident() - before < 32 << 20
    assert owner.w.shape == (size,) and not owner.w.is_meta


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (lambda t: t.pop(NORM), f"{NORM} is missing; accepted: a tensor for each of the graph's"),
        (lambda t: t.update(extra=torch.zeros(1)), "extra has no use in the graph; accepted: a tensor for each"),
        (
            lambda t: t.update({NORM: torch.zeros(95)}),
            f"{NORM} is torch.float32 [95]; accepted: torch.float32 [96]",
        ),
        (
            lambda t: t.update({NORM: t[NORM].bfloat16()}),
            f"{NORM} is torch.bfloat16 [96]; accepted: torch.float32 [96]",
        ),
    ],
)
def test_what_does_not_fit_is_named(
    module: StepModule, weight_file: Path, tmp_path: Path, damage: Callable[[dict[str, Tensor]], object], said: str
) -> None:
    tensors = load_file(weight_file)
    damage(tensors)
    save_file(tensors, tmp_path / "rank0.safetensors")
    with pytest.raises(BadInput) as caught:
        fill(module, tmp_path / "rank0.safetensors")
    assert str(caught.value).startswith(f"{tmp_path / 'rank0.safetensors'}: {said}")


def test_a_parameter_that_no_key_names_and_a_buffer_are_refused(module: StepModule, weight_file: Path) -> None:
    fill(module, weight_file)
    module.register_buffer("left", torch.ones(1))
    with pytest.raises(FoundryError, match="left of the module was given no value"):
        check_filled(module)
    del module.left
    module.more = nn.Parameter(torch.empty(1, device="meta"))
    with pytest.raises(FoundryError, match="more of the module was given no value"):
        check_filled(module)

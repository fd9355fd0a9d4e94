"""Host tables: the checkpoint's bytes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from ledger.errors import BadInput
from ledger.store import Store
from recipes import tables
from recipes.tables import TablesRecipe
from tests.build import PREFIX, TEXT_CONFIG, fetched, job, text_tensors, write_checkpoint

NAMES = ("embed_tokens.weight", "embed_tokens_per_layer.weight")


def run(folder: Path, tensors: dict[str, torch.Tensor], **changes: Any) -> dict[str, torch.Tensor]:
    """The tables that the stage makes of these tensors."""
    store = Store(folder / "store")
    (folder / "checkpoint").mkdir()
    write_checkpoint(folder / "checkpoint", TEXT_CONFIG | changes, tensors)
    outcome = tables.work(job(TablesRecipe(), store, fetch=fetched(folder / "checkpoint", store)))
    found: dict[str, torch.Tensor] = load_file(store.path(outcome.outputs["tables.safetensors"]))
    return found


def test_tables_are_the_checkpoints_own(tmp_path: Path, random_model: Any) -> None:
    tensors = text_tensors(random_model)
    found = run(tmp_path, tensors)
    assert sorted(found) == sorted(NAMES)
    for name in NAMES:
        assert found[name].dtype == torch.bfloat16
        assert torch.equal(found[name], tensors[PREFIX + name])


def test_a_model_without_per_layer_embeddings_has_one_table(tmp_path: Path, random_model: Any) -> None:
    tensors = text_tensors(random_model)
    del tensors[PREFIX + NAMES[1]]
    assert list(run(tmp_path, tensors, hidden_size_per_layer_input=0)) == [NAMES[0]]


@pytest.mark.parametrize(
    ("name", "change", "words"),
    [
        (NAMES[0], lambda table: table.float(), r"is float32 \(512, 96\); accepted: bfloat16 \(512, 96\)"),
        (NAMES[0], lambda table: table[:, :95].clone(), r"is bfloat16 \(512, 95\); accepted: bfloat16 \(512, 96\)"),
        (NAMES[1], lambda table: table[:100].clone(), r"is bfloat16 \(100, 120\); accepted: bfloat16 \(512, 120\)"),
    ],
)
def test_another_table_is_refused(tmp_path: Path, random_model: Any, name: str, change: Any, words: str) -> None:
    tensors = text_tensors(random_model)
    tensors[PREFIX + name] = change(tensors[PREFIX + name])
    with pytest.raises(BadInput, match=f"checkpoint key {PREFIX}{name} {words}"):
        run(tmp_path, tensors)


def test_a_missing_table_is_named(tmp_path: Path, random_model: Any) -> None:
    tensors = text_tensors(random_model)
    del tensors[PREFIX + NAMES[1]]
    with pytest.raises(BadInput, match=f"no tensor {PREFIX}{NAMES[1]}"):
        run(tmp_path, tensors)

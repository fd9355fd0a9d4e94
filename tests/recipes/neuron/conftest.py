"""Receipts that a build for inf2 starts from: the random model's, lowered and with weights, at any degree."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from ledger.receipts import Receipt
from ledger.store import Store
from recipes import lowering, weights
from recipes.lowering import LowerRecipe
from recipes.neuron.stage import NeuronRecipe
from recipes.weights import WeightsRecipe
from tests.build import fetched, job, receipt, text_tensors, write_checkpoint
from tests.recipes.steps import BUCKET, ROWS

Receipts = tuple[Store, dict[str, Receipt]]
ReceiptsOf = Callable[..., Receipts]


def recipe(builder: str, kv: str, **changes: Any) -> NeuronRecipe:
    """The recipe of a build at the shapes of `tests.recipes.steps`, in float32 unless changed."""
    usual = {"target": "inf2", "tp": 1, "batch": 1, "dtype": "float32", "kv_max": ROWS, "kv_bucket": BUCKET}
    return NeuronRecipe.model_validate(usual | {"builder": builder, "kv": kv} | changes)


@pytest.fixture(scope="session")
def receipts_of(random_model: Any, tmp_path_factory: pytest.TempPathFactory) -> ReceiptsOf:
    """Store and receipts (fetch, lower, weights) for a degree and a batch; made once each."""
    folder = tmp_path_factory.mktemp("neuron")
    checkpoint, store = folder / "checkpoint", Store(folder / "store")
    checkpoint.mkdir()
    write_checkpoint(checkpoint, random_model.config.to_dict(), text_tensors(random_model))
    fetch = fetched(checkpoint, store)

    @cache
    def made(tp: int = 1, batch: int = 1, dtype: str = "float32") -> Receipts:
        shared = {"tp": tp, "dtype": dtype, "target": "inf2"}
        lower = LowerRecipe.model_validate(shared | {"kv_max": ROWS, "kv_bucket": BUCKET, "batch": batch})
        weight = WeightsRecipe.model_validate(shared)
        return store, {
            "fetch": fetch,
            "lower": receipt("lower", lowering.work(job(lower, store, fetch=fetch))),
            "weights": receipt("weights", weights.work(job(weight, store, fetch=fetch))),
        }

    return made


@pytest.fixture
def weight_file(receipts_of: ReceiptsOf) -> Path:
    """The weights of the only rank."""
    store, receipts = receipts_of()
    return store.path(receipts["weights"].outputs["rank0.safetensors"])

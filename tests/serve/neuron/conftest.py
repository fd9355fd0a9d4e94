"""Artifacts of target inf2, built by the real stages with the stand-ins' SDK; each once, and read only."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

import pytest
from pydantic import BaseModel

from ledger.receipts import Receipt
from ledger.store import Store
from recipes import assemble, lowering, tables, weights
from recipes.assemble import AssembleRecipe
from recipes.lowering import LowerRecipe
from recipes.neuron import stage
from recipes.neuron.stage import NeuronRecipe
from recipes.tables import TablesRecipe
from recipes.weights import WeightsRecipe
from serve.manifest import Point
from tests.build import fetched, job, point, receipt, text_tensors, write_checkpoint
from tests.serve.http.scripted import write_tokens
from tests.standins import environment

NeuronArtifactOf = Callable[..., Path]
R = TypeVar("R", bound=BaseModel)


@pytest.fixture(scope="session")
def neuron_artifact_of(random_model: Any, tmp_path_factory: pytest.TempPathFactory) -> NeuronArtifactOf:
    """The artifact folder for a builder, a kind of cache and changes of `tests.build.point`.

    `switch` is one of the stand-ins' (NAME=value), set for the build.
    """
    folder = tmp_path_factory.mktemp("neuron-artifacts")
    checkpoint, store = folder / "checkpoint", Store(folder / "store")
    checkpoint.mkdir()
    config = random_model.config.to_dict()
    write_checkpoint(checkpoint, config, text_tensors(random_model))
    write_tokens(checkpoint, config["vocab_size"])
    fetch = fetched(checkpoint, store)
    table = receipt("tables", tables.work(job(TablesRecipe(), store, fetch=fetch)))

    @cache
    def lowered(recipe: LowerRecipe) -> dict[str, Receipt]:
        weight = WeightsRecipe(dtype=recipe.dtype, tp=recipe.tp, target="inf2")
        return {
            "fetch": fetch,
            "tables": table,
            "lower": receipt("lower", lowering.work(job(recipe, store, fetch=fetch))),
            "weights": receipt("weights", weights.work(job(weight, store, fetch=fetch))),
        }

    def built(variant: Point, switches: dict[str, str]) -> Path:
        receipts = lowered(_of(LowerRecipe, variant))
        with pytest.MonkeyPatch.context() as patch:
            for name, value in (environment() | switches).items():
                patch.setenv(name, value)
            compiled = stage.work(job(_of(NeuronRecipe, variant), store, **receipts))
        assert compiled.verdict != "failed", f"{compiled.message}: {compiled.facts}"
        recipe = AssembleRecipe(checkpoint="random", variant=variant)
        receipts = receipts | {"compile": receipt("compile", compiled)}
        assemble.build(job(recipe, store, **receipts), folder / "build")
        return folder / "build" / "variants" / variant.name

    @cache
    def made(builder: str, kv: str, switch: str = "", **changes: Any) -> Path:
        parts = [builder, kv, *(f"{key}{value}" for key, value in sorted(changes.items())), switch]
        name = "-".join(filter(None, parts))
        variant = point(name=name, builder=builder, kv=kv, target="inf2", **changes)
        return built(variant, dict([switch.split("=")]) if switch else {})

    return made


def _of(recipe: type[R], variant: Point) -> R:
    return recipe.model_validate(
        {name: getattr(variant, name) for name in recipe.model_fields if name in Point.model_fields}
    )


@pytest.fixture
def pretended_host(tmp_path: Path) -> dict[str, str]:
    """The environment of a process on a host of its own with one chip, two cores, and nobody on them."""
    names = [name for name in os.environ if name.startswith(("NEURON", "STANDIN"))]
    clean = {name: value for name, value in os.environ.items() if name not in names}
    return environment(clean | {"STANDIN_ROOT": str(tmp_path / "host")})

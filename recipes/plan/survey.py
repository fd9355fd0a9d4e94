"""From a configuration file to the rows of its plan."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from config.geometry import load_text_config
from config.loading import load
from config.models import DType, Variant
from ledger.errors import BadInput
from recipes.fit.predict import Predictor
from recipes.lowering import LowerRecipe
from recipes.plan.advice import reasons
from recipes.plan.graphs import examine_all
from recipes.plan.row import Row, row_of


@dataclass(frozen=True)
class Survey:
    """The rows in the file's order, with what stands against each, and a predictor per checkpoint and dtype.

    `left_out` names the variants of other targets, which have no HBM to plan.
    """

    rows: list[tuple[Row, list[str]]]
    predictors: dict[str, Predictor]
    left_out: list[str]


def survey(path: Path) -> Survey:
    """Plan every variant of target inf2; BadInput for a file that has none, or that is not accepted."""
    checkpoints = load(path).checkpoints.values()
    every = [(checkpoint, variant) for checkpoint in checkpoints for variant in checkpoint.variants]
    wanted = [(checkpoint, variant) for checkpoint, variant in every if variant.target == "inf2"]
    if not wanted:
        raise BadInput(f"{path}: no variant has target inf2; accepted: a configuration such as config/variants.yaml")
    texts = {checkpoint.name: load_text_config(checkpoint.geometry_source) for checkpoint, _ in wanted}
    graphs = examine_all(((checkpoint.name, _recipe(variant)) for checkpoint, variant in wanted), texts)
    predictors: dict[tuple[str, DType], Predictor] = {}
    rows = []
    for checkpoint, variant in wanted:
        key = checkpoint.name, variant.dtype
        if key not in predictors:
            predictors[key] = Predictor(texts[checkpoint.name], checkpoint.load_geometry(), variant.dtype)
        predictor = predictors[key]
        found = graphs[checkpoint.name, _recipe(variant)]
        row = row_of(checkpoint.name, predictor.geometry, variant, found)
        rows.append((row, reasons(row, predictor)))
    left_out = [f"{checkpoint.name}/{variant.name}" for checkpoint, variant in every if variant.target != "inf2"]
    return Survey(rows, {f"{name}, {dtype}": one for (name, dtype), one in predictors.items()}, left_out)


def _recipe(variant: Variant) -> LowerRecipe:
    return LowerRecipe(**{key: getattr(variant, key) for key in LowerRecipe.model_fields})

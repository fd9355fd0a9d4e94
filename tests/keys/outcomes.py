"""Runs stages for drawn points and says what came out: `python -m tests.keys.outcomes SEED COUNT FOLDER`.

In a process of its own, as torch-xla is loaded before the fork in which each graph is lowered: that saves two seconds a
graph. Each point has a store of its own, so that every graph is really lowered, also for a key that was seen before.
Prints a JSON list: for each point by stage the key, and what was made as sha256 of the bytes themselves.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

from config.models import Factory
from config.variant import Variant
from ledger.receipts import Receipt
from ledger.stage import Outcome
from ledger.store import Store
from recipes import compile as compiling
from recipes import lower, weights
from recipes.workflow import Plan, Wildcards
from tests.build import TEXT_CONFIG, fetched, random_model, text_tensors, traps, write_checkpoint
from tests.keys.points import CHECKPOINT, drawn

Made = tuple[str, Any]


def main(seed: int, count: int, folder: Path) -> list[dict[str, Made]]:
    """Outcomes of the drawn points, by stage."""
    os.environ["PJRT_DEVICE"] = "CPU"
    import torch_xla  # noqa: F401

    checkpoint = folder / "checkpoint"
    checkpoint.mkdir()
    # So wide that two ranks on cpu still hold its bfloat16 weights in pieces, as a real model's.
    config = TEXT_CONFIG | {"intermediate_size": 6656}
    write_checkpoint(checkpoint, config, text_tensors(random_model(config, seed=0)) | traps(config))
    compiling.work = cast("Any", lambda job: Outcome())  # what it would make is told from what goes in
    seen: dict[str, Made] = {}
    return [_outcome(factory, checkpoint, folder / str(n), seen) for n, factory in enumerate(drawn(seed, count))]


def _outcome(factory: Factory, checkpoint: Path, folder: Path, seen: dict[str, Made]) -> dict[str, Made]:
    plan, variant = Plan(factory), factory.checkpoints[CHECKPOINT].variants[0]
    at = SimpleNamespace(checkpoint=CHECKPOINT, variant=variant.name, target=variant.target)
    at.dtype, at.tp = variant.dtype, str(variant.tp)
    recipe = {stage: plan.recipe(stage)(cast("Wildcards", at)) for stage in ("lower", "weights", "compile")}
    fetched(checkpoint, Store(folder)).write(folder / "fetch.json")
    lowered = _run(lower.main, "lower", recipe, folder, "fetch")
    made = {"lower": lowered}
    if variant.target == "cpu":
        key, _ = _run(compiling.main, "compile", recipe, folder, "lower")
        made["compile"] = key, [lowered[1], _options(variant)]
    # Twice for each recipe, which tells whether the same key makes the same; it is the slowest here.
    if recipe["weights"] not in seen or len(seen) % 2:
        seen[recipe["weights"]] = made["weights"] = _run(weights.main, "weights", recipe, folder, "fetch")
    shutil.rmtree(folder)
    return made


def _options(variant: Variant) -> dict[str, str]:
    """What XLA is told, in no order."""
    return dict(sorted(flag.split("=") for flag in variant.flags))


def _run(main: Callable[[], int], stage: str, recipe: dict[str, str], folder: Path, given: str) -> Made:
    out = folder / f"{stage}.json"
    flags = ["--recipe", recipe[stage], "--input", f"{given}={folder / given}.json", "--store", str(folder)]
    sys.argv = [stage, *flags, "--out", str(out)]
    assert main() == 0
    receipt = Receipt.read(out)
    objects = {path.name: path for path in (folder / "objects").rglob("*") if path.is_file()}
    return receipt.key, {
        name: hashlib.sha256(objects[ref.sha256].read_bytes()).hexdigest() for name, ref in receipt.outputs.items()
    }


if __name__ == "__main__":
    sys.stdout = sys.stderr  # where stages talk
    outcomes = main(int(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3]))
    sys.__stdout__.write(json.dumps(outcomes))  # type: ignore[union-attr]

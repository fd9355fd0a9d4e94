"""Stage `rented`: parity and bench of one variant on a rented machine, as the receipts that those stages would leave.

    python -m validate.inf2 run --cloud JSON --recipe JSON --input NAME=RECEIPT ... --store S3 --out RECEIPT
                                --parity RECEIPT --bench RECEIPT

Its key is what parity and bench key on and is known here, with the container's digest for the toolchain. The two
receipts are its outputs, so they are in the store, and are written anew where the action is found. Exit code 1 for a
parity that failed, as its own stage has it, and for a run that got no machine or no verdict.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from config.cloud import Inf2
from config.geometry import Geometry
from config.models import Variant
from ledger.digest import parse_json
from ledger.errors import BadInput, explain
from ledger.flags import Parser, add_store, check_file
from ledger.receipts import Receipt
from ledger.stage import Job, Outcome, run_stage, say
from ledger.store import open_store
from recipes.fit.instances import Instance
from recipes.fit.predict import Predictor
from validate import parity
from validate.bench import stage as bench
from validate.inf2.asking import Asking
from validate.inf2.clients import Clients
from validate.inf2.clock import Clock
from validate.inf2.failed import RentFailed
from validate.inf2.order import MODULES, STAGES, Order, StageName, Step, source_of
from validate.inf2.refusals import AWS_ERRORS, hopeless, sentence
from validate.inf2.rent import POLL, close, rent
from validate.inf2.run import run_of
from validate.inf2.sizes import size_of

LONGEST_POLL = 3600.0
"""Seconds, so that the end of a machine is not noticed hours later."""


class Recipe(BaseModel):
    """The recipes of both stages."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    parity: parity.Recipe
    bench: bench.Recipe


def main(argv: Sequence[str]) -> int:
    """The stage; raises BadInput, and RentFailed for a run without a verdict."""
    flags, rest, store = _flags(argv)
    try:
        parse_json(flags.cloud.encode(), "--cloud")
        cloud = Inf2.model_validate_json(flags.cloud)
    except ValidationError as error:
        raise BadInput(explain(error, "--cloud", Inf2)) from None
    code = run_stage(
        "rented",
        Recipe,
        lambda job: _work(job, cloud, flags, store.store),
        modules=tuple(MODULES.values()),
        packages=(),
        environment=lambda _: {"image": cloud.image},
        argv=rest,
    )
    if code == 0:
        _write(Receipt.read(store.out), flags, store)
    return code


def _flags(argv: Sequence[str]) -> tuple[argparse.Namespace, list[str], argparse.Namespace]:
    parser = Parser("rented", __doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--cloud", required=True, metavar="JSON", help="the section inf2 of a configuration")
    parser.add_argument("--parity", required=True, type=Path, metavar="RECEIPT", help="where parity's receipt goes")
    parser.add_argument("--bench", required=True, type=Path, metavar="RECEIPT", help="where bench's receipt goes")
    parser.add_argument("--poll", type=_seconds, default=POLL, metavar="SECONDS", help="between two looks at a run")
    flags, rest = parser.parse_known_args(argv)
    # Those of every stage that are needed here too.
    shared = Parser("rented", add_help=False)
    add_store(shared)
    shared.add_argument("--out", type=Path, default=Path())
    for name in ("parity", "bench"):
        check_file(f"--{name}", getattr(flags, name))
    return flags, rest, shared.parse_known_args(rest)[0]


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds <= LONGEST_POLL:
        raise argparse.ArgumentTypeError(f"found {text!r}; accepted: seconds, more than 0 and at most {LONGEST_POLL}")
    return seconds


def _work(job: Job[Recipe], cloud: Inf2, flags: argparse.Namespace, location: str) -> Outcome:
    paths: dict[StageName, Path] = {"parity": flags.parity, "bench": flags.bench}
    for path in paths.values():
        # As for the stage's own: what is there was made from something else.
        path.unlink(missing_ok=True)
    if not location.startswith("s3://"):
        raise BadInput(f"--store is {location}; accepted: s3://BUCKET/PREFIX, which the rented machine reaches too")
    for receipt in job.inputs.values():
        job.store.share(receipt)
    order = order_of(job, cloud, location)
    run = run_of(order.run, order.name, cloud, Clients(), Clock(), say)
    try:
        found = rent(run, Asking(run, cloud, _size(job, order.name)), order, flags.poll)
        cost, number = run.book.record.cost, len(run.book.record.attempts)
        failed = next((stage for stage, receipt in found.items() if receipt.verdict == "failed"), None)
        if failed:
            beside = paths[failed].with_suffix(".failed.json")
            found[failed].write(beside)
        close(run, found)
    except AWS_ERRORS as error:
        if hopeless(error):
            raise sentence(error, f"the folder {run.folder.address}") from None
        raise RentFailed(
            f"{order.name}: AWS does not do what it is asked for: {' '.join(str(error).split())}"
        ) from None
    if failed:
        return Outcome(verdict="failed", message=f"{order.name}: {failed} failed on a rented machine, see {beside}")
    if missing := STAGES.keys() - found.keys():
        raise RentFailed(f"{order.name}: no receipt of {' and '.join(sorted(missing))}")
    outputs = {f"{stage}.json": job.store.put_json(receipt.model_dump(mode="json")) for stage, receipt in found.items()}
    return Outcome(outputs=outputs, measured={"machines": number, "usd": round(cost, 4)}, verdict="passed")


def order_of(job: Job[Recipe], cloud: Inf2, location: str) -> Order:
    """What the machine is asked to do."""
    recipes: dict[StageName, dict[str, Any]] = {
        "parity": job.recipe.parity.model_dump(mode="json"),
        "bench": job.recipe.bench.model_dump(mode="json"),
    }
    inputs = {name: job.inputs[name] for name in ("fetch", "assemble", "oracle", "prompts")}
    steps = {stage: Step(recipe=recipe, source=source_of(stage)) for stage, recipe in recipes.items()}
    try:
        return Order(store=location, image=cloud.image, inputs=inputs, steps=steps)
    except ValidationError as error:
        raise BadInput(explain(error, "--input", Order)) from None


def _size(job: Job[Recipe], name: str) -> Instance:
    """The machine for the variant; the step graph is built for it, which takes seconds."""
    try:
        variant = Variant.model_validate(job.inputs["assemble"].recipe["variant"])
    except ValidationError as error:
        raise BadInput(explain(error, "--input assemble: recipe.variant", Variant)) from None
    config = job.inputs["fetch"].outputs.get("config.json")
    text = (job.store.read_json(config) if config else {}).get("text_config")
    if not isinstance(text, dict):
        raise BadInput("--input fetch: no config.json with text_config; accepted: a receipt of a checkpoint")
    try:
        geometry = Geometry.model_validate({**text, "name": name})
    except ValidationError as error:
        raise BadInput(explain(error, "--input fetch: config.json: text_config", Geometry)) from None
    return size_of(name, variant, geometry, Predictor(text, geometry, variant.dtype))[0]


def _write(receipt: Receipt, flags: argparse.Namespace, store: argparse.Namespace) -> None:
    """The two receipts, out of the store."""
    opened = open_store(store.store, store.cache)
    for stage in MODULES:
        path = getattr(flags, stage)
        made = Receipt.model_validate(opened.read_json(receipt.outputs[f"{stage}.json"]))
        made.write(path)
        path.with_suffix(".failed.json").unlink(missing_ok=True)

"""The one driver of all stages: key, look up, work, receipt.

A stage is a function from a typed recipe and the receipts of the stages before it to an Outcome. This file
gives it a command line and runs it only when its key is new. The key covers what may change the result:
recipe, digests of the inputs, package versions and the source that runs. Unlike in make, file times play no
part.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path
from typing import Any, Generic, TypeVar

from pydantic import BaseModel, ValidationError

from ledger.digest import digest_json, parse_json
from ledger.errors import BadInput, explain
from ledger.flags import Parser, add_store, check_file
from ledger.receipts import Receipt, Ref, Verdict
from ledger.sources import file_digests, source_digest
from ledger.store import Store, open_store
from ledger.store.asked import Asked, place

R = TypeVar("R", bound=BaseModel)


@dataclass(frozen=True)
class Outcome:
    """What a stage hands back: objects it stored, facts for other stages, measurements, and its verdict.

    `message` is the sentence for a person when the verdict is "failed".
    """

    outputs: dict[str, Ref] = field(default_factory=dict)
    facts: dict[str, Any] = field(default_factory=dict)
    measured: dict[str, Any] = field(default_factory=dict)
    verdict: Verdict = "done"
    message: str = ""


class Inputs(dict[str, Receipt]):
    """Receipts by name; asking for one that was not given is a BadInput that names the flag."""

    def __missing__(self, name: str) -> Receipt:
        given = ", ".join(self) or "none"
        raise BadInput(f"--input {name}=RECEIPT is missing; given: {given}")


@dataclass(frozen=True)
class Job(Generic[R]):
    """What a stage works on."""

    recipe: R
    inputs: dict[str, Receipt]
    store: Store


def run_stage(
    name: str,
    recipe_model: type[R],
    work: Callable[[Job[R]], Outcome],
    *,
    modules: tuple[str, ...],
    packages: tuple[str, ...],
    environment: Callable[[R], Mapping[str, str]] | None = None,
    fills_folder: bool = False,
    argv: Sequence[str] | None = None,
) -> int:
    """Run stage `name` from the command line: 0 when its receipt is at --out, 1 when its verdict is "failed".

    `environment` tells, for a recipe, what else of this host shapes the result, as part of the toolchain. A stage that
    `fills_folder` outside the store works every time, as a recorded receipt says nothing of that folder.
    `modules` are the dotted names whose import closure is the stage's source, `packages` the distributions
    whose versions are its toolchain. A failed run is never recorded: its receipt goes to STEM.failed.json
    beside --out, as snakemake deletes the outputs of a failed job. Raises BadInput for flags, recipes and
    receipts.
    """
    flags = _parser(name).parse_args(argv)
    check_file("--out", flags.out)
    job = Job(_recipe(flags.recipe, recipe_model), _inputs(flags.input), open_store(flags.store, flags.cache))
    host = environment(job.recipe) if environment else {}
    known = _known(name, job) | {"toolchain": _toolchain(packages) | dict(host), "source": source_digest(*modules)}
    key = digest_json(known)
    failed_out = flags.out.with_suffix(".failed.json")
    if not fills_folder and (recorded := job.store.find_action(key)):
        recorded.write(flags.out)
        failed_out.unlink(missing_ok=True)
        say(f"{name}: unchanged ({key[:12]})")
        return 0

    # Whatever is there was made from something else, and must not pass for this run's if the work is killed.
    flags.out.unlink(missing_ok=True)
    keys = {label: receipt.key for label, receipt in job.inputs.items()}
    job.store.ask(Asked(**known, key=key, input_keys=keys, files=file_digests(*modules), place=place(flags.out)))
    say(f"{name}: building ({key[:12]}) ...")
    started = time.monotonic()
    outcome = work(job)
    receipt = _receipt(key, known, outcome, time.monotonic() - started)
    if receipt.verdict == "failed":
        receipt.write(failed_out)
        sys.stderr.write(f"error: {outcome.message or f'{name} failed'}\n")
        say(f"{name}: failed after {_seconds(receipt)} s, see {failed_out}")
        return 1
    recorded = job.store.record_action(receipt, anew=fills_folder)
    recorded.write(flags.out)
    failed_out.unlink(missing_ok=True)
    if recorded.digest != receipt.digest:
        say(f"{name}: another builder of {key[:12]} was first, and what it made is taken")
    say(f"{name}: {recorded.verdict} in {_seconds(receipt)} s")
    return 0


def _known(name: str, job: Job[R]) -> dict[str, Any]:
    return {
        "stage": name,
        "recipe": job.recipe.model_dump(mode="json"),
        "inputs": {label: receipt.digest for label, receipt in job.inputs.items()},
    }


def _seconds(receipt: Receipt) -> str:
    return f"{receipt.measured['stage_seconds']:.1f}"


def _receipt(key: str, known: dict[str, Any], outcome: Outcome, seconds: float) -> Receipt:
    return Receipt(
        **known,
        key=key,
        outputs=outcome.outputs,
        facts=outcome.facts,
        measured=outcome.measured | {"stage_seconds": round(seconds, 3)},
        verdict=outcome.verdict,
    )


def say(text: str) -> None:
    """One line of progress on stdout, at once."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def _parser(name: str) -> Parser:
    parser = Parser(name, f"Run the stage {name!r} unless its result is known.")
    parser.add_argument("--recipe", required=True, metavar="JSON|@FILE", help="what to make")
    parser.add_argument("--input", action="append", default=[], metavar="NAME=RECEIPT", help="repeatable")
    add_store(parser)
    parser.add_argument("--out", required=True, type=Path, metavar="RECEIPT", help="where the receipt goes")
    return parser


def _recipe(flag: str, model: type[R]) -> R:
    origin, data = "--recipe", flag.encode()
    if flag.startswith("@"):
        origin = flag[1:]
        try:
            data = Path(origin).read_bytes()
        except OSError as error:
            raise BadInput(f"--recipe {flag} cannot be read: {error.strerror}") from None
    try:
        # Parsed twice: the first names the damage, the second lets strict models have their tuples from
        # lists.
        parse_json(data, origin)
        return model.model_validate_json(data)
    except ValidationError as error:
        raise BadInput(explain(error, origin, model)) from None


def _inputs(flags: list[str]) -> Inputs:
    inputs = Inputs()
    for flag in flags:
        name, equals, path = flag.partition("=")
        if not (name and equals and path):
            raise BadInput(f"--input is {flag!r}; accepted: NAME=RECEIPT")
        if name in inputs:
            raise BadInput(f"--input {name} is given twice; accepted: once")
        receipt = Receipt.read(Path(path))
        # A label may say more than the stage: the variant before it, or the point of the matrix after it.
        if receipt.stage not in name.split("/"):
            accepted = " or ".join(name.split("/"))
            raise BadInput(f"--input {name}: {path} is of stage {receipt.stage!r}; accepted: a receipt of {accepted}")
        if receipt.verdict == "failed":
            raise BadInput(f"--input {name}: {path} says failed; accepted: a receipt that is done or passed")
        inputs[name] = receipt
    return inputs


def _toolchain(packages: tuple[str, ...]) -> dict[str, str]:
    """Versions by distribution name, "absent" for what is not installed, and Python's minor version."""
    versions = {"python": f"{sys.version_info.major}.{sys.version_info.minor}"}
    for package in packages:
        try:
            versions[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            versions[package] = "absent"
    return versions

"""The other side of a run: what a rented machine does, in the project's container, by `make hardware JOB=s3://...`.

    doctor -> probe (once for a container) -> parity -> bench

Each receipt goes to S3 as soon as it is there. What is there already is not run again, so a machine that follows one
that AWS took back goes on where that was. The stages lay the artifact out of the store by themselves.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from config.cloud import RUNS
from ledger.atomic import write_bytes, write_json
from ledger.errors import BadInput, FoundryError, GateFailed
from ledger.flags import Parser
from ledger.receipts import parse_model
from ledger.stage import say
from validate.inf2.clients import Clients
from validate.inf2.clock import Clock
from validate.inf2.failed import RentFailed
from validate.inf2.folder import Folder
from validate.inf2.order import MODULES, ORDER, PROBE, STAGES, Order, StageName, failed_name, receipt_name, source_of
from validate.inf2.patience import PATIENCE, Patient
from validate.inf2.refusals import AWS_ERRORS, hopeless, name_of, sentence

WORK = Path("results/hardware")


def main(argv: Sequence[str]) -> int:
    """Do what the order says; GateFailed for a gate that failed, with its evidence on S3, BadInput for the rest."""
    parser = Parser("validate.inf2 job", (__doc__ or "").splitlines()[0])
    parser.add_argument("order", metavar="S3", help=f"the address of a run's {ORDER}")
    parser.add_argument("--only", nargs="+", default=[], metavar="NAME", help="questions of the probe; all of them")
    flags = parser.parse_args(argv)
    address, _, name = flags.order.rpartition("/")
    if not (re.fullmatch(RUNS, address) and name == ORDER):
        raise BadInput(f"JOB is {flags.order!r}; accepted: the address of a run, s3://BUCKET/PREFIX/{ORDER}")
    folder = Patient(Folder(Clients().s3(), address), Clock())
    try:
        order = _read(folder)
        say(f"machine: {order.name}, run {order.run[:12]}")
        _check_source(order)
        _doctor()
        _probe(folder, order, flags.only)
        for stage in STAGES:
            _stage(folder, order, stage)
    except AWS_ERRORS as error:
        if hopeless(error):
            raise sentence(error, f"the folder {address}") from None
        raise RentFailed(
            f"{address}: AWS has not answered for {PATIENCE / 60:.0f} minutes ({name_of(error)})"
        ) from None
    return 0


def _read(folder: Patient) -> Order:
    origin = f"{folder.address}/{ORDER}"
    if (data := folder.read(ORDER)) is None:
        raise BadInput(f"{origin} is not there; accepted: the order that validate.inf2 run has written")
    return parse_model(Order, data, origin)


def _check_source(order: Order) -> None:
    """Before an hour is spent: receipts of another source would not be taken."""
    for stage, step in order.steps.items():
        if (found := source_of(stage)) != step.source:
            raise BadInput(
                f"inf2.image {order.image}: its source of stage {stage} is {found[:12]}; accepted: {step.source[:12]}, "
                "that of the caller: an image of the same commit"
            )


def _doctor() -> None:
    if _run("recipes.doctor", "--role", "inf2-serve"):
        raise GateFailed(
            "the machine lacks what the doctor names above; accepted: a base image and a container for inf2"
        )


def _probe(folder: Patient, order: Order, only: Sequence[str]) -> None:
    """The open questions about a Neuron host, once for each container, as they are about driver and SDK."""
    runs = folder.above()
    kept = f"probes/{order.image.rpartition(':')[2]}.json"
    if runs.read(kept) is not None:
        say(f"probe: is at {runs.address}/{kept}")
        return
    path = WORK / PROBE
    code = _run("validate.probe", "--out", str(path), *(["--only", *only] if only else []))
    if path.is_file():
        folder.write(PROBE, path.read_bytes())
    if code:
        raise GateFailed(f"the probe ended with exit code {code}: no graph works on this machine")
    runs.write(kept, path.read_bytes())


def _stage(folder: Patient, order: Order, stage: StageName) -> None:
    """Run one stage unless its receipt is on S3, and send the receipt there, also one that says failed."""
    work = WORK / order.run
    out = work / f"{stage}.json"
    if (done := folder.read(receipt_name(stage))) is not None:
        say(f"{stage}: is on S3")
        write_bytes(out, done)
        return
    recipe = work / f"{stage}.recipe.json"
    write_json(recipe, order.steps[stage].recipe)
    flags = ["--recipe", f"@{recipe}"]
    for label in STAGES[stage]:
        given = order.inputs.get(label)
        path = work / f"{label}.json"
        if given:
            given.write(path)
        flags += ["--input", f"{label}={path}"]
    code = _run(MODULES[stage], *flags, "--store", order.store, "--out", str(out))
    failed = out.with_suffix(".failed.json")
    if code == 0:
        folder.write(receipt_name(stage), out.read_bytes())
    elif failed.is_file():
        folder.write(failed_name(stage), failed.read_bytes())
        raise GateFailed(f"stage {stage} failed")
    else:
        raise FoundryError(f"stage {stage} ended with exit code {code}")


def _run(module: str, *arguments: str) -> int:
    """Run a module of the project; what it prints goes where ours does."""
    sys.stdout.flush()
    return subprocess.run([sys.executable, "-m", module, *arguments], check=False).returncode

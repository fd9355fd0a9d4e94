"""What is left of runs in every region of a configuration: `python -m validate.inf2 sweep CONFIG ... [--terminate]`.

A machine is a leftover when nobody waits for it any more, which no list can tell; so all of the configuration's are
listed, with the time at which each ends by itself and whom to ask. --overdue leaves out those that are not past it.
A caller that still waits for one that is terminated asks for another: end the caller first.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from datetime import UTC, datetime
from functools import partial

from ledger.errors import BadInput
from ledger.flags import Parser
from validate.inf2.clients import Clients
from validate.inf2.clock import Clock
from validate.inf2.failed import RentFailed
from validate.inf2.folder import Folder
from validate.inf2.machines import DEADLINE, RUN, WHO, Machine, Machines
from validate.inf2.record import Book, Record
from validate.inf2.refusals import AWS_ERRORS, hopeless, sentence
from validate.inf2.section import add_config, configured
from validate.inf2.telling import tell


def main(argv: Sequence[str], clients: Clients | None = None, clock: Clock | None = None) -> int:
    """List machines and open spot requests, and end them with --terminate.

    Every region is gone through before RentFailed, when one did not answer, as it may hold some, or BadInput, when one
    refused. BadInput also for a configuration without `inf2`.
    """
    parser = Parser("validate.inf2 sweep", (__doc__ or "").splitlines()[0])
    add_config(parser)
    parser.add_argument("--terminate", action="store_true", help="terminate the machines, cancel the requests")
    parser.add_argument("--overdue", action="store_true", help="only machines that are past their own deadline")
    flags = parser.parse_args(argv)
    _, cloud = configured(*flags.config)
    clients = clients or Clients()
    machines, runs = Machines(clients, cloud.runs), Folder(clients.s3(), cloud.runs)
    now = (clock or Clock()).now()
    silent: list[str] = []
    refused: list[str] = []
    for region in cloud.regions:
        try:
            ended = _sweep(region, machines, now, flags.terminate, flags.overdue)
            _book(ended, runs, now)
        except AWS_ERRORS as error:
            if hopeless(error):
                what = "the end" if flags.terminate else "a list"
                refused.append(str(sentence(error, f"{what} of the machines in {region}")))
            else:
                silent.append(region)
    kind = BadInput if refused else RentFailed
    if silent:
        refused.append(f"{', '.join(silent)}: AWS does not answer; accepted: the same command later")
    if refused:
        raise kind(", and ".join(refused))
    return 0


def _sweep(region: str, machines: Machines, now: float, terminate: bool, overdue: bool) -> list[Machine]:
    """Tell what the region holds; what is to be ended is ended before, and returned."""
    found = [one for one in machines.alive(region) if not overdue or is_overdue(one, now)]
    requests = [] if overdue else machines.requests(region)
    try:
        if terminate:
            with ExitStack() as both:
                both.callback(machines.terminate, region, [one.id for one in found])
                both.callback(machines.cancel, region, requests)
    finally:
        for one in found:
            late = ", overdue" if is_overdue(one, now) else ""
            tags = one.tags
            tell(
                f"{region} {one.id} {one.kind} {one.state}: run {tags.get(RUN, '?')[:12]} of {tags.get(WHO, '?')}, "
                f"ends at {tags.get(DEADLINE, '?')}{late}"
            )
        for request in requests:
            tell(f"{region} {request}: a spot request that is open")
    if not found and not requests:
        tell(f"{region}: nothing is left")
    elif terminate:
        tell(f"{region}: terminated {len(found)}, cancelled {len(requests)}")
    return found if terminate else []


def _book(ended: Sequence[Machine], runs: Folder, now: float) -> None:
    """Write down the end of machines whose callers cannot, so that the next one has the ceiling's rest for its own."""
    for machine in ended:
        if RUN in machine.tags:
            book = Book(runs.below(machine.tags[RUN]))
            book.read()
            book.change(partial(Record.ended, number=machine.attempt, now=now))


def is_overdue(machine: Machine, now: float) -> bool:
    """Whether a machine should have ended by itself; one without a readable deadline should."""
    try:
        return now > datetime.fromisoformat(machine.tags.get(DEADLINE, "")).astimezone(UTC).timestamp()
    except ValueError:
        return True

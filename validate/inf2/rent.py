"""A run from its order to its receipts: what is on S3 is taken, a machine is rented for the rest, and given back."""

from __future__ import annotations

from ledger.digest import canonical_json
from ledger.receipts import Receipt
from validate.inf2.asking import Asking
from validate.inf2.checking import results
from validate.inf2.order import ORDER, Order, StageName, failed_name
from validate.inf2.record import Record
from validate.inf2.run import Run, signals_raise
from validate.inf2.watching import Ending, Watch, settled

POLL = 15.0
"""Seconds between two looks at a run."""


def rent(run: Run, asking: Asking, order: Order, poll: float = POLL) -> dict[StageName, Receipt]:
    """The receipts of the order, the last of them perhaps one that says failed.

    No machine of the run is left, whatever is raised: RentFailed, BadInput, an error of AWS, or a signal's exception.
    """
    with signals_raise():
        try:
            run.touched |= {attempt.region for attempt in run.book.read().open()}
            found = _work(run, asking, order, poll)
        finally:
            _give_back(run)
    cost = run.book.record.cost
    run.say(f"receipts are here; all machines together cost at most {cost:.2f} USD")
    return found


def close(run: Run, found: dict[StageName, Receipt]) -> None:
    """End the run: the same order counts from zero again, and what failed runs again."""
    for stage, receipt in found.items():
        if receipt.verdict == "failed":
            run.folder.remove(failed_name(stage))
    run.book.change(lambda record: Record(number=record.number))


def _work(run: Run, asking: Asking, order: Order, poll: float) -> dict[StageName, Receipt]:
    if settled(run.folder.names()) and (found := results(run.folder, order)):
        run.say(f"takes what is at {run.folder.address}")
        return found
    run.folder.write(ORDER, canonical_json(order.model_dump(mode="json")))
    while True:
        machine, attempt = asking.machine()
        if Watch(run, machine, attempt, poll).wait() is Ending.TAKEN:
            run.ended(attempt)
        elif found := results(run.folder, order):
            return found


def _give_back(run: Run) -> None:
    for machine in run.release():
        run.say(
            f"{machine.id} in {machine.region} may still run until its own timer ends it; "
            "python -m validate.inf2 sweep CONFIG --terminate ends it now"
        )

"""Stage promote: what was verified becomes public, or nothing does.

Looks at the servers every time, as a receipt says nothing of them: what is public already is left alone, and what a
killed promotion left undone is done.
"""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import BaseModel, ConfigDict

from ledger.errors import GateFailed, run_cli
from ledger.receipts import Receipt
from ledger.stage import Job, Outcome, run_stage, say
from ledger.store import Store
from publish.promotion.decide import decide
from publish.promotion.destination import Destination
from publish.promotion.live import connect
from publish.promotion.moves import moves
from publish.promotion.remote import Remotes


class PromoteRecipe(BaseModel):
    """Where the release becomes public."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    destination: Destination


def work(job: Job[PromoteRecipe], remotes: Remotes) -> Outcome:
    """Make every move that is left, in order; GateFailed before the first for anything that does not hold."""
    destination = job.recipe.destination
    check_recorded(job.inputs, job.store)
    ticket = decide(destination.variants, job.inputs)
    if job.inputs["stage"].recipe != job.recipe.model_dump(mode="json"):
        raise GateFailed(
            f"the stage receipt is of another destination; accepted: {destination.version} of {destination.image} and "
            f"{destination.repo}, by running snakemake"
        )
    left = moves(ticket, destination, remotes)
    for move in left:
        move.do()
        say(f"promote: {move}")
    if undone := left and moves(ticket, destination, remotes):
        raise GateFailed(f"{undone[0].name} is {undone[0].before} after the promotion; accepted: {undone[0].after}")
    return Outcome(
        facts={"commit": ticket.commit, "images": dict(ticket.images), "version": destination.version},
        measured={"moves": len(left)},
        verdict="passed",
    )


def check_recorded(receipts: Mapping[str, Receipt], store: Store) -> None:
    """GateFailed unless each receipt is what its stage recorded in the store; how long it took may differ."""
    for name, receipt in receipts.items():
        record = store.find_action(receipt.key)
        if record is None or record.model_copy(update={"measured": receipt.measured}) != receipt:
            raise GateFailed(
                f"the {name} receipt is not what its stage recorded in the store, or what it made is gone; accepted: "
                f"the receipt as it was written; delete it and run again"
            )


def main(argv: list[str] | None = None) -> int:
    """The stage."""
    return run_stage(
        "promote",
        PromoteRecipe,
        lambda job: work(job, connect(job.recipe.destination)),
        modules=("publish.promotion.promote",),
        packages=("huggingface_hub",),
        fills_folder=True,
        argv=argv,
    )


if __name__ == "__main__":
    run_cli(main)

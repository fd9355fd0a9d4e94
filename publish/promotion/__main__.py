"""`python -m publish.promotion CONFIG ... [--dry-run]`: stage, verify and promote what was built, without the workflow.

Asks the servers also where the workflow would find nothing to do, as its receipts tell of this machine alone: what is
public stays, and what somebody removed from staging is sent again. With --dry-run nothing is sent: it is told.
"""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import cast

from ledger.errors import BadInput, FoundryError, run_cli
from ledger.flags import Parser
from ledger.receipts import Receipt
from ledger.stage import say
from publish.promotion import preview, promote, stage, verify
from publish.promotion.decide import decide
from publish.promotion.live import connect
from publish.promotion.moves import moves
from publish.workflow import Publishing
from recipes.workflow import Wildcards, read_plan

STAGES = {"stage": stage.main, "verify": verify.main, "promote": promote.main}


def main() -> int:
    """All three stages of each release; the code of the first that fails."""
    parser = Parser("publish.promotion", "Stages, verifies and promotes the signed releases of a configuration.")
    parser.add_argument(
        "config", nargs="+", type=Path, metavar="CONFIG", help="configuration, merged as snakemake does"
    )
    parser.add_argument("--dry-run", action="store_true", help="tell what would move, with sizes, and move nothing")
    flags = parser.parse_args()
    plan = read_plan(flags.config, {})
    publishing = Publishing(plan)
    publishing.check()
    for name in plan.factory.checkpoints:
        wildcards = cast("Wildcards", SimpleNamespace(checkpoint=name))
        if flags.dry_run:
            _preview(publishing, wildcards)
            continue
        for key, run in STAGES.items():
            if key == "verify" and _public(publishing, wildcards):
                say(f"verify: {name} is public as it was verified")
            elif code := run(publishing.arguments(key, wildcards)):
                return code
    return 0


def _public(publishing: Publishing, wildcards: Wildcards) -> bool:
    """Whether all that was verified is public, so that nothing is to be pulled back for."""
    to = publishing.destination(wildcards)
    try:
        receipts = {name: Receipt.read(Path(path)) for name, path in publishing.inputs("promote")(wildcards).items()}
        return not moves(decide(to.variants, receipts), to, connect(to))
    except FoundryError:
        return False


def _preview(publishing: Publishing, wildcards: Wildcards) -> None:
    to = publishing.destination(wildcards)
    remotes, paths = connect(to), publishing.inputs("promote")(wildcards)
    receipts = {name: Receipt.read(Path(path)) for name, path in paths.items() if Path(path).is_file()}
    for name in (*(f"{variant}/image" for variant in to.variants), "sign"):
        if name not in receipts:
            raise BadInput(f"receipt {paths[name]} is missing; accepted: a release that is built and signed")
    for line in preview.staging(to, remotes, *publishing.folders(wildcards)):
        say(line)
    for line in preview.promotion(to, remotes, receipts):
        say(line)


if __name__ == "__main__":
    run_cli(main)

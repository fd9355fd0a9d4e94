"""`python -m ledger.store COMMAND`: why something was built again, what is kept, and what may go."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from ledger.errors import BadInput, run_cli
from ledger.flags import Parser, add_location, add_store, check_folder, whole
from ledger.stage import say
from ledger.store import collect, kept, telling
from ledger.store.holding import Folder
from ledger.store.opening import open_holding
from ledger.store.why import Library

_GRACE_DAYS = 7
_DAY = 24 * 3600


def _why(flags: argparse.Namespace) -> None:
    holdings = [open_holding(flags.store)]
    if "://" in flags.store:
        # What was asked before there was a bucket behind the folder is in the folder alone.
        check_folder("--cache", flags.cache)
        holdings.append(Folder(Path(flags.cache)))
    answer = Library(holdings).answer(flags.key)
    say(_json(telling.as_json(answer)) if flags.json else "\n".join(telling.lines(answer)))


def _keep(flags: argparse.Namespace) -> None:
    made = kept.keep(open_holding(flags.store), flags.name, flags.receipts)
    say(f"kept {flags.name}: {len(made.receipts)} receipts, and what they were made from")


def _forget(flags: argparse.Namespace) -> None:
    kept.forget(open_holding(flags.store), flags.name)
    say(f"{flags.name} is kept no longer")


def _collect(flags: argparse.Namespace) -> None:
    holding = open_holding(flags.store)
    releases = kept.all_kept(holding)
    if flags.delete and not releases and not flags.keep_nothing:
        raise BadInput(
            "--delete, and nothing is kept in this store; accepted: `keep` a release before it, or --keep-nothing too"
        )
    garbage = collect.find(holding, releases.values(), holding.now() - flags.older_than * _DAY)
    if garbage.is_of_nothing and not flags.json:
        say(f"{flags.store} holds nothing: no store yet, or another location than was meant")
        return
    if flags.delete:
        garbage = collect.remove(holding, garbage)
    found: dict[str, Any] = {"deleted": flags.delete, "kept": list(releases), **garbage.summary()}
    say(_json(found) if flags.json else _lines(found))


def _lines(found: dict[str, Any]) -> str:
    verb = "removed" if found["deleted"] else "would remove, with --delete:"
    names = ", ".join(found["kept"]) or "nothing"
    return (
        f"kept: {names}; {found['staying_objects']} objects stay ({telling.size(found['staying_bytes'])})\n"
        f"{verb} {found['records']} records, {found['asked']} questions, {found['objects']} objects "
        f"({telling.size(found['bytes'])}), {found['uploads']} uploads that never ended"
    )


def _json(value: dict[str, Any]) -> str:
    return json.dumps(value, indent=2)


def _parser() -> Parser:
    parser = Parser("ledger.store", "Looks into a store of build products.")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    why = commands.add_parser("why", help="which input differed from the nearest recorded run")
    why.add_argument("key", metavar="KEY", help="the digits after `building`, a whole key, or a receipt's path")
    why.set_defaults(run=_why)
    keeping = commands.add_parser("keep", help="keep a release: receipts, what they made and were made from")
    keeping.add_argument("name", metavar="NAME")
    keeping.add_argument(
        "receipts",
        nargs="+",
        type=Path,
        metavar="RECEIPT|FOLDER",
        help="results/RUN/receipts/CHECKPOINT has all of a release, a release folder what its variants were made from",
    )
    keeping.set_defaults(run=_keep)
    forgetting = commands.add_parser("forget", help="keep a release no longer")
    forgetting.add_argument("name", metavar="NAME")
    forgetting.set_defaults(run=_forget)
    collecting = commands.add_parser("collect", help="what no kept release needs: counted, or removed")
    collecting.add_argument("--delete", action="store_true", help="remove it; without this flag it is only counted")
    collecting.add_argument(
        "--older-than", type=whole(0), default=_GRACE_DAYS, metavar="DAYS", help=f"grace, default {_GRACE_DAYS}"
    )
    collecting.add_argument("--keep-nothing", action="store_true", help="--delete although nothing is kept")
    collecting.set_defaults(run=_collect)
    add_store(why)
    for command in (keeping, forgetting, collecting):
        add_location(command)
    for command in (why, collecting):
        command.add_argument("--json", action="store_true", help="for programs")
    return parser


def main(argv: list[str] | None = None) -> int:
    """Run the command that was given."""
    flags = _parser().parse_args(argv)
    flags.run(flags)
    return 0


if __name__ == "__main__":
    run_cli(main)

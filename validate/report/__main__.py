"""The command: `python -m validate.report --out FILE --store DIR [--full FILE] RECEIPT...`."""

from __future__ import annotations

from pathlib import Path

from ledger.atomic import write_text
from ledger.errors import BadInput, run_cli
from ledger.flags import Parser, check_file
from ledger.stage import say
from ledger.store import Store
from validate.report import full
from validate.report.page import page
from validate.report.run import read


def main() -> int:
    """`python -m validate.report`; the verdict of the run is on the page and not in the exit code."""
    parser = Parser("report", "One HTML file about a run, from its receipts and the store.")
    parser.add_argument("--out", required=True, type=Path, metavar="FILE", help="where the page goes")
    parser.add_argument("--store", required=True, type=Path, metavar="DIR", help="the run's content-addressed store")
    parser.add_argument(
        "--full", type=Path, metavar="FILE", help="a summary of full-size figures, for a section of its own"
    )
    parser.add_argument(
        "receipts", nargs="+", type=Path, metavar="RECEIPT", help="receipts of one run, or the folder that holds them"
    )
    flags = parser.parse_args()
    check_file("--out", flags.out)
    if not flags.store.is_dir():
        raise BadInput(f"--store {flags.store} is no folder; accepted: the store that the run was made with")
    run = read(flags.receipts)
    write_text(flags.out, page(run, Store(flags.store), full.read(flags.full) if flags.full else None))
    say(f"report: {flags.out}")
    return 0


if __name__ == "__main__":
    run_cli(main)

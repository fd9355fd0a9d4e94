"""The command: `python -m validate.report --out FILE --store DIR [--full FILE] [--upstream FILE] RECEIPT...`."""

from __future__ import annotations

from pathlib import Path

from ledger.atomic import write_text
from ledger.errors import BadInput, run_cli
from ledger.flags import Parser, add_store, check_file
from ledger.stage import say
from ledger.store import open_store
from recipes.hub import findings
from recipes.hub.findings import Upstream
from validate.report import full
from validate.report.page import page
from validate.report.run import read


def main() -> int:
    """`python -m validate.report`; the verdict of the run is on the page and not in the exit code."""
    parser = Parser("report", "One HTML file about a run, from its receipts and the store.")
    parser.add_argument("--out", required=True, type=Path, metavar="FILE", help="where the page goes")
    add_store(parser)
    parser.add_argument(
        "--full", type=Path, metavar="FILE", help="a summary of full-size figures, for a section of its own"
    )
    parser.add_argument(
        "--upstream", type=Path, metavar="FILE", help="what recipes.hub.upstream found, for a section of its own"
    )
    parser.add_argument(
        "receipts", nargs="+", type=Path, metavar="RECEIPT", help="receipts of one run, or the folder that holds them"
    )
    flags = parser.parse_args()
    check_file("--out", flags.out)
    if "://" not in flags.store and not Path(flags.store).is_dir():
        raise BadInput(f"--store {flags.store} is no folder; accepted: the store that the run was made with")
    run = read(flags.receipts)
    measured = full.read(flags.full) if flags.full else None
    upstream, unasked = _found(flags.upstream)
    write_text(flags.out, page(run, open_store(flags.store, flags.cache), measured, upstream, unasked))
    if unasked:
        say(f"report: upstream {unasked}")
    say(f"report: {flags.out}")
    return 0


def _found(path: Path | None) -> tuple[Upstream | None, str]:
    """The findings in a file, or why there are none: the page of a night whose watch failed is needed too."""
    if path is None:
        return None, ""
    if not path.exists():
        return None, f"was not asked ({path} is missing)"
    try:
        return findings.read(path, "--upstream"), ""
    except BadInput as error:
        return None, f"is unknown ({error})"


if __name__ == "__main__":
    run_cli(main)

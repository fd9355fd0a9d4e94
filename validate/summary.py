"""One object and one table row per variant, made from the receipts of a run.

    python -m validate.summary --out results/NAME/summary.json RECEIPT...     writes the list
    python -m validate.summary --show CONFIG... [--snakemake FLAG...]         prints the table

Departs from a report that only knows success: --show also works after a run that failed, and says what is missing or
failed. Receipts are told apart by where they lie: receipts/CHECKPOINT/fetch.json,
receipts/CHECKPOINT/VARIANT/STAGE.json.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from config.loading import load
from config.models import Factory
from ledger.atomic import write_json
from ledger.errors import BadInput, run_cli
from ledger.flags import Parser
from ledger.receipts import Receipt
from ledger.stage import say
from ledger.store.holding import Folder, Holding
from recipes.travel import add_flags, bucket_in
from validate.facts import check_facts
from validate.rows import STAGES, Row, row
from validate.table import exemption_lines, foreign_lines, table

RESULTS = Path("results")
ALL_EXEMPTIONS = 40
"""So many uses of the exemption are printed under the table; beyond, the receipt has them all."""

Receipts = dict[tuple[str, str], dict[str, Receipt]]


def grouped(paths: Sequence[Path]) -> Receipts:
    """Receipts by (checkpoint, variant) and then by stage; what a checkpoint's variants share is under each of them.

    BadInput names a receipt that is missing or damaged.
    """
    groups: Receipts = {}
    shared: dict[str, dict[str, Receipt]] = {}
    for path in paths:
        receipt, folder = Receipt.read(path), path.parent
        _check(receipt, path)
        if folder.parent.name == "receipts":
            shared.setdefault(folder.name, {})[receipt.stage] = receipt
        else:
            groups.setdefault((folder.parent.name, folder.name), {})[receipt.stage] = receipt
    return {key: shared.get(key[0], {}) | stages for key, stages in groups.items()}


def rows(receipts: Receipts) -> list[Row]:
    """The summary of a finished run; BadInput for a variant that was not assembled."""
    made = []
    for (checkpoint, variant), stages in receipts.items():
        if "assemble" not in stages:
            raise BadInput(
                f"receipt assemble of {checkpoint}/{variant} is missing; accepted: all of a variant's receipts"
            )
        made.append(row(checkpoint, stages["assemble"].recipe["variant"], stages))
    return made


def show(factory: Factory, results: Path = RESULTS, files: Holding | None = None) -> str:
    """The table of a configuration's run as far as it got, the exemptions used, and the release folders.

    `files` has the receipts, by their path from the working directory, where they are not in it.
    """
    run = results / factory.name
    files = files or Folder(Path())
    shown: list[Row] = []
    notes: list[str] = []
    for checkpoint in factory.checkpoints.values():
        for variant in checkpoint.variants:
            stages = _existing(files, run / "receipts" / checkpoint.name, variant.name)
            shown.append(row(checkpoint.name, variant.model_dump(mode="json"), stages))
            if "parity" in stages:
                notes += exemption_lines(variant.name, stages["parity"].facts["exemptions"])
    if len(notes) > ALL_EXEMPTIONS:
        notes[ALL_EXEMPTIONS:] = [f"and {len(notes) - ALL_EXEMPTIONS} more exempt, see {run}/receipts"]
    releases = [run / "release" / name for name in factory.checkpoints]
    published = [f"release: {path}" if path.is_dir() else f"release: none yet ({path})" for path in releases]
    return "\n".join([table(shown), *foreign_lines(shown), *notes, *published])


def _existing(files: Holding, folder: Path, variant: str) -> dict[str, Receipt]:
    """What there is of a variant's receipts, a failed one in the place of the good one; none travels of those."""
    named = {"fetch": folder / "fetch.json"} | {stage: folder / variant / f"{stage}.json" for stage in STAGES}
    stages = {}
    for stage, path in named.items():
        for candidate in (path.with_suffix(".failed.json"), path) if isinstance(files, Folder) else (path,):
            if (data := files.read(str(candidate))) is not None:
                stages[stage] = Receipt.parse(data, f"receipt {candidate}")
                _check(stages[stage], candidate)
                break
    return stages


def _check(receipt: Receipt, path: Path) -> None:
    """BadInput for a receipt that is not what its name says, or lacks what the table shows."""
    named = path.name.partition(".")[0]
    if receipt.stage != named:
        raise BadInput(f"receipt {path}: stage is {receipt.stage!r}; accepted: {named!r}, as the file is called")
    check_facts(receipt, path)


def main() -> int:
    """`python -m validate.summary`."""
    parser = Parser("summary", "The results of a run, for machines (--out) or for a person (--show).")
    parser.add_argument("--out", type=Path, metavar="FILE", help="write the summary of the receipts to FILE")
    parser.add_argument("--show", action="store_true", help="print the table of the run of a configuration")
    parser.add_argument(
        "files", nargs="*", type=Path, metavar="FILE", help="with --out a run's receipts, with --show its configuration"
    )
    add_flags(parser)
    flags = parser.parse_args()
    if (flags.out is None) != flags.show or not flags.files:
        raise BadInput("summary: accepted: either --out FILE RECEIPT... or --show CONFIG...")
    if flags.show:
        factory = load(*flags.files)
        say(show(factory, files=bucket_in(flags.snakemake, factory.store)))
        return 0
    made = rows(grouped(flags.files))
    write_json(flags.out, made)
    say(f"summary: {len(made)} variants, {flags.out}")
    return 0


if __name__ == "__main__":
    run_cli(main)

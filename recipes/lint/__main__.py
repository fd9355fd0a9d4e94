"""Judge HLO modules for a target, without its compiler.

python -m recipes.lint FILE.hlo.pb [FILE ...] --target inf2 [--tp N] [--aliases N] [--json]

Exit code 0 when there is no error among the findings, 1 when there is, 2 for bad input.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from ledger.errors import BadInput, run_cli
from ledger.flags import Parser, whole
from ledger.stage import say
from recipes.lint import Expected, Finding, judge
from recipes.lint.finding import SEVERITIES
from recipes.lint.rules import RULES


def main(argv: Sequence[str] | None = None) -> int:
    """Print what was found in each file: a table for people, or one JSON list of findings with their file."""
    options = _parser().parse_args(argv)
    expected = Expected(tp=options.tp, aliases=options.aliases)
    # All files are read and judged before anything is said: a list of findings is whole or not there.
    found = [(path, judge(_read(path), options.target, expected=expected, origin=str(path))) for path in options.files]
    if options.json:
        rows = [{"file": str(path), **asdict(finding)} for path, findings in found for finding in findings]
        say(json.dumps(rows, indent=1))
    else:
        for path, findings in found:
            _table(path, findings)
    return int(any(finding.severity == "error" for _, findings in found for finding in findings))


def _parser() -> Parser:
    parser = Parser("recipes.lint", __doc__.splitlines()[0])
    parser.add_argument("files", type=Path, nargs="+", metavar="FILE", help="serialized HloModuleProto or HloProto")
    parser.add_argument("--target", choices=list(RULES), default="inf2", help="whose rules (default: inf2)")
    parser.add_argument("--tp", type=whole(1), metavar="N", help="ranks of the build: judges its collectives")
    parser.add_argument("--aliases", type=whole(0), metavar="N", help="states that stay on the device")
    parser.add_argument("--json", action="store_true", help="print a JSON list instead of a table")
    return parser


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise BadInput(f"{path} cannot be read: {error.strerror}; accepted: a serialized HloModuleProto") from None


def _table(path: Path, findings: list[Finding]) -> None:
    for one in findings:
        count = f" (x{one.count})" if one.count > 1 else ""
        place = " ".join(filter(None, [one.instruction and f"%{one.instruction}", one.source and f"at {one.source}"]))
        say(f"{one.severity:5}  {one.rule}{f' [{one.code}]' if one.code else ''}{count}  {place}".rstrip())
        say(f"       {one.message}")
        say(f"       remedy: {one.remedy}")
    counts = Counter(dict.fromkeys(SEVERITIES, 0))
    for one in findings:
        counts[one.severity] += one.count
    say(f"{path}: {counts['error']} errors, {counts['warn']} warnings, {counts['info']} notes")


if __name__ == "__main__":
    run_cli(main)

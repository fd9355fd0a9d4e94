"""Plan a matrix from config.json alone.

python -m recipes.plan FILE [--json] [--plot FILE.svg]
python -m recipes.plan --check-published [--json]

Exit code 0 when every variant can work and the law holds, 1 when one cannot (the table says what would) or the law is
beyond its stated error, 2 for bad input.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from ledger.errors import BadInput, GateFailed, run_cli
from ledger.flags import Parser, check_file
from ledger.stage import say
from recipes.fit.published import ERROR, Check, check_published
from recipes.plan.survey import Survey, survey
from recipes.plan.table import check_lines, plan_lines


def main(argv: Sequence[str] | None = None) -> int:
    """Print the plan of FILE, the check of the law, or both: as tables, or as one JSON object."""
    options = _parser().parse_args(argv)
    _check(options.config, options.check_published, options.plot)
    plan = survey(options.config) if options.config else None
    checks = check_published() if options.check_published else None
    if plan and options.plot:
        from recipes.plan.plot import write_plot

        write_plot(plan.predictors, options.plot)
    if options.json:
        say(json.dumps(_document(plan, checks), indent=1))
    else:
        for line in [*_plan_lines(plan), *(check_lines(checks) if checks else [])]:
            say(line)
    _judge(options.config, plan, checks)
    return 0


def _parser() -> Parser:
    parser = Parser("recipes.plan", __doc__.splitlines()[0])
    parser.add_argument("config", type=Path, nargs="?", metavar="FILE", help="such as config/variants.yaml")
    parser.add_argument("--json", action="store_true", help="print a JSON object instead of tables")
    parser.add_argument("--plot", type=Path, metavar="FILE.svg", help="write HBM per core against context")
    parser.add_argument("--check-published", action="store_true", help="the speed law against published figures")
    return parser


def _check(config: Path | None, check: bool, plot: Path | None) -> None:
    if config is None and not check:
        raise BadInput("recipes.plan: FILE is missing; accepted: a configuration, or --check-published")
    if plot is None:
        return
    if config is None:
        raise BadInput("--plot needs FILE; accepted: a configuration such as config/variants.yaml")
    if plot.suffix != ".svg":
        raise BadInput(f"--plot is {plot}; accepted: a name that ends in .svg")
    check_file("--plot", plot)


def _plan_lines(plan: Survey | None) -> list[str]:
    if plan is None:
        return []
    left_out = [f"left out: {name}, whose target is not inf2" for name in plan.left_out]
    return [*plan_lines(plan.rows), *left_out]


def _document(plan: Survey | None, checks: list[Check] | None) -> dict[str, Any]:
    document: dict[str, Any] = {}
    if plan:
        document["variants"] = [row.as_json() | {"cannot_work": against} for row, against in plan.rows]
        document["left_out"] = plan.left_out
    if checks:
        document["stated_error"] = ERROR
        document["published"] = [
            asdict(check.figure) | {"expected": check.expected, "error": check.error, "holds": check.holds}
            for check in checks
        ]
    return document


def _judge(config: Path | None, plan: Survey | None, checks: list[Check] | None) -> None:
    """GateFailed for a variant that cannot work, or for a figure that the law misses."""
    if plan and (failed := [(row, against) for row, against in plan.rows if against]):
        row, against = failed[0]
        more = f" (and {len(failed) - 1} more)" if len(failed) > 1 else ""
        raise GateFailed(f"{config}: {row.name} cannot work: {against[0]}{more}")
    for check in checks or ():
        if not check.holds:
            raise GateFailed(
                f"published figure {check.figure.name!r}: the law is off by {check.error:+.1%}; accepted: {ERROR:.0%}"
            )


if __name__ == "__main__":
    run_cli(main)

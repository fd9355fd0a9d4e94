"""What this machine has and lacks for a role.

python -m recipes.doctor [--role cpu|inf2-build|inf2-serve] [--config FILE] [--json]

Exit code 0 when nothing stands against the role as far as can be told, 1 when something is missing or wrong, 2 for bad
input.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ledger.errors import GateFailed, run_cli
from ledger.flags import Parser
from recipes.doctor import ROLES, Role
from recipes.doctor.finding import Finding, lines_of
from recipes.doctor.pins import ROOT
from recipes.doctor.roles import findings


def main(argv: Sequence[str] | None = None) -> int:
    """Print the findings as a table or as one JSON object; GateFailed when the role cannot work."""
    parser = Parser("recipes.doctor", (__doc__ or "").splitlines()[0])
    parser.add_argument("--role", choices=ROLES, default="cpu")
    parser.add_argument(
        "--config",
        type=Path,
        metavar="FILE",
        default=ROOT / "config/variants.yaml",
        help="the matrix that memory and disk are held against; config/variants.yaml",
    )
    parser.add_argument("--json", action="store_true", help="print a JSON object instead of a table")
    options = parser.parse_args(argv)
    found = list(findings(options.role, options.config))
    text = json.dumps(_document(options.role, found), indent=1) if options.json else "\n".join(lines_of(found))
    sys.stdout.write(text + "\n")
    sys.stdout.flush()
    blocking = [one for one in found if one.blocks]
    if blocking:
        names = ", ".join(one.name for one in blocking)
        raise GateFailed(f"this machine cannot be {options.role}: {names}")
    return 0


def _document(role: Role, found: list[Finding]) -> dict[str, Any]:
    return {"role": role, "works": not any(one.blocks for one in found), "findings": [one.as_json() for one in found]}


if __name__ == "__main__":
    run_cli(main)

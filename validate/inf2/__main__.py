"""Parity and bench on rented inf2 machines.

python -m validate.inf2 plan CONFIG ... [--prices] [--json]  which variant would run where, and what it may cost
python -m validate.inf2 sweep CONFIG ... [--terminate]       machines that are left, by their tags
python -m validate.inf2 run ...                              the stage `rented`, as the workflow calls it
python -m validate.inf2 job s3://.../job.json                on the machine: `make hardware JOB=...`

Exit code 0, 1 for a gate that failed or a run without a verdict, 2 for bad input.
"""

from __future__ import annotations

import sys
from importlib import import_module

from ledger.errors import BadInput, run_cli
from ledger.stage import say

_COMMANDS = {"plan": "plan", "sweep": "sweep", "run": "stage", "job": "hardware"}


def main() -> int:
    """Run the command that is named first."""
    name, *rest = sys.argv[1:] or [""]
    if name in ("-h", "--help"):
        say((__doc__ or "").strip())
        return 0
    if name not in _COMMANDS:
        raise BadInput(f"validate.inf2: found {name!r}; accepted: {', '.join(_COMMANDS)}")
    # Each alone, as a rented machine has no need of what plans, nor a plan of boto3.
    code: int = import_module(f"validate.inf2.{_COMMANDS[name]}").main(rest)
    return code


if __name__ == "__main__":
    run_cli(main)

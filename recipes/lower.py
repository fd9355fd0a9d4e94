"""Stage lower, and the same for a whole matrix without a checkpoint.

python -m recipes.lower --recipe JSON --input fetch=RECEIPT --store DIR --out RECEIPT
python -m recipes.lower CONFIG.yaml [--json]
"""

from __future__ import annotations

import sys

from ledger.errors import run_cli
from ledger.stage import run_stage
from recipes.lowering import LowerRecipe, work


def main() -> int:
    """The stage when there is a --recipe; a configuration file is surveyed."""
    if any(argument.startswith("--recipe") for argument in sys.argv[1:]):
        return run_stage(
            "lower",
            LowerRecipe,
            work,
            modules=("recipes.lowering",),
            packages=("torch", "torch-xla", "transformers"),
        )
    from recipes.lower_matrix import main as survey

    return survey()


if __name__ == "__main__":
    run_cli(main)

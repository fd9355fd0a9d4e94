"""Lower a whole matrix from config.json alone, and say what each graph holds: ops, parameters, state, bytes.

No checkpoint is fetched and no weight is read, so this answers in seconds whether a new variant lowers at all.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from config.geometry import load_text_config
from config.loading import load
from ledger.columns import aligned
from ledger.flags import Parser
from ledger.stage import say
from recipes.lowering import LowerRecipe, lower
from recipes.tensorwriter import size
from serve.manifest import GRAPHS


def survey(path: Path) -> Iterator[dict[str, Any]]:
    """One row per graph of every variant in the configuration file; equal points are lowered once."""
    done: dict[tuple[str, LowerRecipe], list[dict[str, Any]]] = {}
    for checkpoint in load(path).checkpoints.values():
        text_config = load_text_config(checkpoint.geometry_source)
        for variant in checkpoint.variants:
            recipe = LowerRecipe(**{key: getattr(variant, key) for key in LowerRecipe.model_fields})
            key = (checkpoint.name, recipe)
            if key not in done:
                done[key] = [_row(text_config, recipe, graph) for graph in GRAPHS]
            yield from ({"checkpoint": checkpoint.name, "variant": variant.name} | row for row in done[key])


def _row(text_config: dict[str, Any], recipe: LowerRecipe, graph: Any) -> dict[str, Any]:
    lowered = lower(text_config, recipe, graph)
    signature = lowered.signature
    return {
        "graph": graph,
        "ops": lowered.instructions,
        "parameters": len(signature.parameters),
        "weight_bytes": sum(map(size, signature.named("weight").values())),
        "input_bytes": sum(map(size, signature.named("input").values())),
        "state_buffers": len(signature.named("state")),
        "state_bytes": sum(map(size, signature.named("state").values())),
        "hlo_bytes": len(lowered.hlo),
    }


def main() -> int:
    """python -m recipes.lower CONFIG [--json]."""
    parser = Parser("recipes.lower", __doc__.splitlines()[0])
    parser.add_argument("config", type=Path, help="configuration file, such as config/variants.yaml")
    parser.add_argument("--json", action="store_true", help="print a JSON list instead of a table")
    options = parser.parse_args()
    rows = list(survey(options.config))
    if options.json:
        say(json.dumps(rows, indent=1))
        return 0
    say("\n".join(aligned([list(rows[0]), *(list(map(str, row.values())) for row in rows)])))
    return 0

"""The real graphs of Gemma 4 E2B, in the two-graph form that published builds have compiled: no error on any."""

from __future__ import annotations

from pathlib import Path

import pytest

from config.geometry import load_text_config
from config.loading import load
from recipes.lint import Expected, judge
from recipes.lowering import LowerRecipe, lower
from serve.manifest import GRAPHS, GraphName
from tests.recipes.lint.corpus import HITS, hits

ROOT = Path(__file__).parents[3]
# 15 of the 35 layers own a K and a V buffer.
OWNED = 30


@pytest.mark.parametrize("name", ["512-128", "tp2-2048"])
@pytest.mark.parametrize("graph", GRAPHS)
def test_a_published_form_has_no_error(name: str, graph: GraphName) -> None:
    checkpoint = load(ROOT / "config/variants.yaml").checkpoints["gemma-4-e2b-it"]
    variant = next(one for one in checkpoint.variants if one.name == name)
    recipe = LowerRecipe(**{key: getattr(variant, key) for key in LowerRecipe.model_fields})
    lowered = lower(load_text_config(checkpoint.geometry_source), recipe, graph)
    found = judge(lowered.hlo, "inf2", expected=Expected(tp=recipe.tp, aliases=OWNED))
    assert hits(found) == HITS(
        {
            # The angles of RoPE, for sliding and for full layers.
            ("info", "float32-dot-small", "-"): 2,
            # The soft-cap of the logits.
            ("info", "wide-tanh", "NCC_INLA001"): 1,
        }
    )

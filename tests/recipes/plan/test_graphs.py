"""Graphs of a matrix: judged and counted in workers, each distinct one once."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest

from ledger.errors import BadInput
from recipes.lowering import LowerRecipe
from recipes.plan import graphs
from recipes.plan.graphs import Graph, examine, examine_all
from serve.manifest import GraphName
from tests.build import TEXT_CONFIG
from tests.recipes.fit.fake import signature


def _recipe(**changes: Any) -> LowerRecipe:
    usual = {"kv_max": 44, "kv_bucket": 8, "tp": 1, "batch": 1, "dtype": "bfloat16", "target": "inf2"}
    return LowerRecipe.model_validate(usual | changes)


def test_a_graph_is_judged_and_its_products_are_counted() -> None:
    found = examine(TEXT_CONFIG, _recipe(), "decode")
    assert not [one for one in found.findings if one.severity == "error"]
    # Each matrix multiplies one row; attention adds to that, and nothing else does.
    weights = found.signature.named("weight").values()
    matrices = sum(2 * math.prod(one.shape) for one in weights if len(one.shape) == 2)
    layers, heads = TEXT_CONFIG["num_hidden_layers"], TEXT_CONFIG["num_attention_heads"]
    widest = max(TEXT_CONFIG["head_dim"], TEXT_CONFIG["global_head_dim"])
    assert matrices < found.flops <= matrices + layers * heads * 4 * 44 * widest + 4096


def test_points_that_are_equal_are_examined_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(graphs, "examine", _noted)
    points = [(str(tmp_path), _recipe()), (str(tmp_path), _recipe(tp=2)), (str(tmp_path), _recipe())]
    found = examine_all(points, {str(tmp_path): {**TEXT_CONFIG, "note": str(tmp_path)}})
    assert list(found) == points[:2] and all(list(pair) == ["prefill", "decode"] for pair in found.values())
    assert sorted(path.name for path in tmp_path.iterdir()) == ["decode-1", "decode-2", "prefill-1", "prefill-2"]


def _noted(text_config: dict[str, Any], recipe: LowerRecipe, graph: GraphName) -> Graph:
    # Workers share nothing but files; a second call would find the file there.
    (Path(text_config["note"]) / f"{graph}-{recipe.tp}").touch(exist_ok=False)
    return Graph(signature(graph), (), 0)


def test_what_cannot_be_lowered_is_one_sentence_from_a_worker() -> None:
    with pytest.raises(BadInput, match="accepted: a multiple of tp, which is 8"):
        examine_all([("c", _recipe(tp=8))], {"c": TEXT_CONFIG})

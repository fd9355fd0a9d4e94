"""Stage lint on the graphs of the tiny geometry, as they are and with what the compiler would not take."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ledger.receipts import Receipt
from ledger.stage import Outcome
from ledger.store import Store
from recipes.fit.instances import GIB
from recipes.lint import stage
from recipes.lint.stage import LintRecipe
from recipes.lowering import LowerRecipe, lower
from serve.manifest import GRAPHS, Signature
from tests.build import TEXT_CONFIG, job, receipt
from tests.recipes.lint.corpus import case

RECIPE = LintRecipe(target="inf2", builder="nxd", tp=1, kv="device")


@pytest.fixture(scope="module")
def lowered() -> dict[str, Any]:
    recipe = LowerRecipe(kv_max=44, kv_bucket=8, tp=1, batch=1, dtype="bfloat16", target="inf2")
    return {graph: lower(TEXT_CONFIG, recipe, graph) for graph in GRAPHS}


def judged(store: Store, graphs: dict[str, tuple[bytes, Signature]]) -> Outcome:
    outputs = {f"{graph}.hlo.pb": store.put_bytes(hlo) for graph, (hlo, _) in graphs.items()}
    for graph, (_, signature) in graphs.items():
        outputs[f"{graph}.signature.json"] = store.put_json(signature.model_dump(mode="json"))
    inputs: dict[str, Receipt] = {
        "lower": receipt("lower", Outcome(outputs=outputs)),
        "fetch": receipt("fetch", Outcome(outputs={"config.json": store.put_json({"text_config": TEXT_CONFIG})})),
    }
    return stage.work(job(RECIPE, store, **inputs))


def test_graphs_of_the_step_graph_pass(tmp_path: Path, lowered: dict[str, Any]) -> None:
    store = Store(tmp_path)
    outcome = judged(store, {graph: (one.hlo, one.signature) for graph, one in lowered.items()})
    assert (outcome.verdict, outcome.message) == ("passed", "")
    assert outcome.facts["errors"] == 0
    assert 0 < outcome.facts["hbm"]["total"] < GIB
    assert isinstance(store.read_json(outcome.outputs["findings.json"]), list)


def test_one_operator_that_the_compiler_refuses_fails_the_variant(tmp_path: Path, lowered: dict[str, Any]) -> None:
    graphs = {graph: (one.hlo, one.signature) for graph, one in lowered.items()}
    graphs["decode"] = (case("topk", "bad").hlo, graphs["decode"][1])
    outcome = judged(Store(tmp_path), graphs)
    assert outcome.verdict == "failed"
    assert outcome.message.startswith("lint NCC_EVRF001: ")
    assert outcome.facts["errors"] >= 1


def test_memory_that_no_core_has_fails_the_variant(tmp_path: Path, lowered: dict[str, Any]) -> None:
    def widened(signature: Signature) -> Signature:
        """The same graph with a weight of 20 GB."""
        first = next(p for p in signature.parameters if p.role == "weight")
        wide = first.model_copy(update={"shape": (10_000_000, 1_000)})
        return signature.model_copy(
            update={"parameters": tuple(wide if p is first else p for p in signature.parameters)}
        )

    outcome = judged(Store(tmp_path), {graph: (one.hlo, widened(one.signature)) for graph, one in lowered.items()})
    assert outcome.verdict == "failed"
    assert outcome.message.startswith("HBM per core is ")
    assert "accepted: at most 16" in outcome.message

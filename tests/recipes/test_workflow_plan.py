"""What the plan hands to the rules: paths, recipes, wildcards."""

import json
import re
from types import SimpleNamespace
from typing import Any, cast

import pytest

from config.loading import load
from ledger.errors import BadInput
from ledger.sources import ROOT
from recipes.workflow import Plan, Wildcards, read_plan


@pytest.fixture(scope="module")
def plan() -> Plan:
    return Plan(load(ROOT / "config" / "variants.yaml"))


def of(**values: str) -> Wildcards:
    return cast("Wildcards", SimpleNamespace(checkpoint="gemma-4-e2b-it", **values))


def recipe(plan: Plan, stage: str, **values: str) -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads(plan.recipe(stage)(of(**values)))
    return loaded


def test_slim_and_full_share_graphs_but_no_artifact(plan: Plan) -> None:
    """They differ on the host alone, so the store has one pair of graphs for both."""
    assert plan.recipe("lower")(of(variant="slim")) == plan.recipe("lower")(of(variant="512-128"))
    assert plan.recipe("assemble")(of(variant="slim")) != plan.recipe("assemble")(of(variant="512-128"))


def test_tensor_parallel_variants_have_their_own_weights(plan: Plan) -> None:
    folder = "results/inf2/receipts/gemma-4-e2b-it/weights"
    assert plan.weights_of(of(variant="tp2-slim")) == f"{folder}/inf2-bfloat16-tp2.json"
    assert plan.weights_of(of(variant="slim")) == f"{folder}/inf2-bfloat16-tp1.json"


def test_variants_of_one_size_share_the_oracle(plan: Plan) -> None:
    oracle = plan.of_size("oracle")
    assert oracle(of(variant="2048-512")) == oracle(of(variant="tp2-slim"))
    assert oracle(of(variant="slim")).endswith("oracle/512-128.json")


def test_prompts_know_the_window_of_the_geometry(plan: Plan) -> None:
    asked = recipe(plan, "prompts", kv_max="512", kv_bucket="128")
    assert (asked["kv_max"], asked["kv_bucket"], asked["window"]) == (512, 128, 512)


def test_parity_knows_the_limits_that_were_declared(plan: Plan) -> None:
    asked = recipe(plan, "parity", variant="slim")
    declared = plan.factory.parity
    assert asked == {
        "dtype": "bfloat16",
        "epsilon": declared.bfloat16_epsilon,
        "logprob_tolerance": declared.float32_logprob_tolerance,
    }


def test_the_pins_reach_fetch(plan: Plan) -> None:
    asked = recipe(plan, "fetch")
    assert asked["source"]["revision"] == "9dbdf8a839e4e9e0eb56ed80cc8886661d3817cf"
    assert len(asked["files"]["model.safetensors"]) == 64


def test_a_release_is_made_from_every_receipt_of_every_variant(plan: Plan) -> None:
    inputs = plan.package_inputs(of())
    assert len(inputs) == 2 + 2 + 8 * 5
    assert inputs["tp2-slim/parity"] == "results/inf2/receipts/gemma-4-e2b-it/tp2-slim/parity.json"


def test_the_report_is_made_from_every_receipt_of_the_run_each_once(plan: Plan) -> None:
    inputs = plan.report_inputs()
    # Fetch and tables; weights by degree; prompts and oracle by size; six stages of each variant with lint.
    e2b, e4b, twelve = 2 + 2 + 4 + 8 * 6, 2 + 1 + 4 + 3 * 6, 2 + 1 + 2 + 2 * 6
    assert len(inputs) == len(set(inputs)) == e2b + e4b + twelve
    assert set(plan.package_inputs(of()).values()) < set(inputs)
    assert {"oracle/512-128.json", "prompts/2048-512.json", "gemma-4-e2b-it/tables.json"} <= {
        "/".join(path.split("/")[-2:]) for path in inputs
    }


def test_flags_are_safe_in_a_shell(plan: Plan) -> None:
    assert plan.flags(of(), {"a/b": "x y", "c": "z"}) == "--input 'a/b=x y' --input c=z"


def test_dots_in_names_are_no_wildcards_of_a_regular_expression() -> None:
    factory = load(ROOT / "config" / "smoke.yaml")
    checkpoint = factory.checkpoints["demo"]
    renamed = checkpoint.variants[0].model_copy(update={"name": "v1.5"})
    changed = checkpoint.model_copy(update={"variants": (renamed,)})
    pattern = Plan(factory.model_copy(update={"checkpoints": {"demo": changed}})).one_of("variant")
    assert re.fullmatch(pattern, "v1.5")
    assert not re.fullmatch(pattern, "v1x5")


def test_files_are_merged_in_order_and_the_command_line_wins() -> None:
    config = ROOT / "config"
    both = read_plan([config / "smoke.yaml", config / "demo.yaml"], {"store": "elsewhere"})
    assert (both.results, both.store) == ("results/demo", ["--store", "elsewhere"])
    assert both.factory.parity.prompts == load(config / "smoke.yaml").parity.prompts


def test_no_file_at_all() -> None:
    with pytest.raises(BadInput, match="--configfile is missing"):
        read_plan([], {})

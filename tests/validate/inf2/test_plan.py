"""Plan: machines and bounds by hand, without a network; with one, zones and prices are asked for and nothing else."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from config.geometry import load_geometry, load_text_config
from config.models import Variant
from ledger.errors import BadInput
from recipes.fit.predict import Predictor
from tests.validate.inf2.world import world
from validate.inf2.failed import RentFailed
from validate.inf2.plan import main
from validate.inf2.sizes import size_of

GOOD = Path(__file__).parents[2] / "config/good/rented_inf2.yaml"


def test_the_plan_by_hand(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(GOOD), "--json"]) == 0
    (row,) = json.loads(capsys.readouterr().out)["variants"]
    assert (row["variant"], row["machine"]) == ("demo/a", "inf2.xlarge")
    # 0.7582 a hour and 200 GB at 0.08 a month, times 1.5; 90 minutes and 10 around them.
    assert row["usd_per_hour"] == pytest.approx((0.7582 + 200 * 0.08 / 730) * 1.5, abs=1e-4)
    assert row["minutes"] == 90
    assert row["most_usd"] == pytest.approx(row["usd_per_hour"] * 100 / 60, abs=0.01)
    assert row["places"] == ["us-east-1", "us-west-2"]


def test_the_table_says_what_all_of_it_may_cost(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(GOOD)]) == 0
    said = capsys.readouterr().out
    assert said.splitlines()[-1] == "spot, then on demand; at most 4 USD for each variant, 4 for all"


def test_with_prices_zones_are_listed_and_nothing_is_started(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    found = yaml.safe_load(GOOD.read_text())
    found["inf2"] |= {"base_image": "/foundry/base"}
    config = tmp_path / "config.yaml"
    config.write_text(yaml.safe_dump(found))
    with world() as here:
        here.prices = {"us-west-2d": 0.2}
        assert main([str(config), "--prices", "--json"], here.clients) == 0
        (row,) = json.loads(capsys.readouterr().out)["variants"]
        # Two zones of the second region are allowed, and every one of the first.
        assert row["places"][0] == "us-west-2d 0.2000"
        assert sorted(one.split()[0] for one in row["places"]) == [
            *(f"us-east-1{letter}" for letter in "abcf"),
            "us-west-2a",
            "us-west-2d",
        ]
        assert here.asked == []


def test_a_ceiling_that_buys_nothing_is_said(tmp_path: Path) -> None:
    config = tmp_path / "config.yaml"
    config.write_text(GOOD.read_text().replace("ceiling_usd: 4", "ceiling_usd: 0.1"))
    with pytest.raises(
        RentFailed, match=r"demo/a: inf2\.ceiling_usd is 0\.1; accepted: more, as it buys no inf2\.xlarge"
    ):
        main([str(config)])


def test_a_matrix_without_the_target_is_bad_input(tmp_path: Path) -> None:
    config = tmp_path / "config.yaml"
    config.write_text(GOOD.read_text().replace("target: inf2", "target: cpu"))
    with pytest.raises(BadInput, match="no variant has target inf2"):
        main([str(config)])


@pytest.mark.parametrize(
    ("geometry", "changes", "machine"),
    [
        ("tiny", {}, "inf2.xlarge"),
        ("gemma-4-E2B-it", {"slim": True, "kv": "host"}, "inf2.8xlarge"),
        ("gemma-4-E2B-it", {"tp": 4}, "inf2.24xlarge"),
    ],
)
def test_the_size_goes_by_cores_and_by_what_the_bench_holds(
    geometry: str, changes: dict[str, object], machine: str
) -> None:
    variant = Variant.model_validate(
        {"name": "a", "kv_max": 512, "kv_bucket": 128, "dtype": "bfloat16", "target": "inf2"} | changes
    )
    shape = load_geometry(geometry)
    predictor = Predictor(load_text_config(geometry), shape, variant.dtype)
    assert size_of("demo/a", variant, shape, predictor)[0].name == machine


def test_a_variant_that_no_core_holds_is_refused() -> None:
    geometry = "gemma-4-31B-it"
    variant = Variant.model_validate(
        {"name": "a", "kv_max": 512, "kv_bucket": 128, "dtype": "bfloat16", "target": "inf2"}
    )
    shape = load_geometry(geometry)
    predictor = Predictor(load_text_config(geometry), shape, variant.dtype)
    with pytest.raises(RentFailed, match="no machine of the family has it"):
        size_of("demo/a", variant, shape, predictor)


def test_what_is_said_beside_json_goes_elsewhere(capsys: pytest.CaptureFixture[str]) -> None:
    with world() as here:
        here.faults["GetParameter"] = lambda _: "InternalError"
        assert main([str(GOOD), "--prices", "--json"], here.clients) == 0
        said = capsys.readouterr()
        assert json.loads(said.out)["variants"][0]["places"] == []
        assert "us-west-2 does not answer (InternalError), and is left out for now" in said.err

"""Which variants are rented for: those of target inf2, with the section, where no NeuronCore is."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from config.loading import from_mapping, read_mapping
from recipes.workflow import Plan
from validate.workflow import Renting

GOOD = Path(__file__).parents[1] / "config/good/rented_inf2.yaml"


class Wild:
    """The wildcards of one variant."""

    checkpoint, variant = "demo", "a"
    kv_max = kv_bucket = target = dtype = tp = ""


def plan(**changes: object) -> Plan:
    mapping = read_mapping(GOOD)
    variants = [
        {"name": "a", "kv_max": 256, "kv_bucket": 64, "target": "inf2"},
        {"name": "b", "kv_max": 256, "kv_bucket": 64},
    ]
    checkpoint = mapping["checkpoints"]["demo"] | {"variants": variants}
    # The same names, and the targets the other way round.
    other = checkpoint | {"variants": [variants[0] | {"name": "b"}, variants[1] | {"name": "a"}]}
    return Plan(from_mapping(mapping | {"checkpoints": {"demo": checkpoint, "other": other}} | changes, "test"))


def rented(renting: Renting) -> set[str]:
    pattern = re.compile(rf"(?P<checkpoint>{renting.pairs()})/(?P<variant>a|b)/rented\.json")
    names = [f"{checkpoint}/{variant}" for checkpoint in ("demo", "other") for variant in "ab"]
    return {name for name in names if pattern.fullmatch(f"{name}/rented.json")}


def test_variants_of_target_inf2_are_rented_for(tmp_path: Path) -> None:
    assert rented(Renting(plan(), tmp_path)) == {"demo/a", "other/b"}


def test_nothing_is_rented_on_a_host_with_a_device(tmp_path: Path) -> None:
    (tmp_path / "neuron0").touch()
    assert rented(Renting(plan(), tmp_path)) == set()


def test_nothing_is_rented_without_the_section(tmp_path: Path) -> None:
    renting = Renting(plan(inf2=None), tmp_path)
    assert rented(renting) == set()


@pytest.mark.parametrize(("key", "value"), [("ceiling_usd", 5.0), ("regions", {"eu-west-1": {}}), ("on_demand", False)])
def test_how_it_is_rented_is_no_reason_to_run_again(tmp_path: Path, key: str, value: object) -> None:
    section = read_mapping(GOOD)["inf2"]
    one, other = (Renting(plan(inf2=changed), tmp_path) for changed in (section, section | {key: value}))
    assert one.section(Wild(), 1) != other.section(Wild(), 1)
    assert one.code == other.code


def test_another_container_is_another_run(tmp_path: Path) -> None:
    section = read_mapping(GOOD)["inf2"]
    other = section["image"].rpartition(":")[0] + ":" + "1" * 64
    one, two = (Renting(plan(inf2=section | {"image": image}), tmp_path) for image in (section["image"], other))
    assert one.code != two.code


def test_the_recipe_is_that_of_both_stages(tmp_path: Path) -> None:
    made = plan()
    recipe = json.loads(Renting(made, tmp_path).recipe(Wild()))
    assert recipe == {stage: json.loads(made.recipe(stage)(Wild())) for stage in ("parity", "bench")}

"""Whose Neuron packages a build was made with."""

import pytest

from config.sdk import PINS, foreign


def test_the_builds_of_aws_are_no_foreigners() -> None:
    assert foreign(PINS) is None
    assert foreign({**PINS, "neuronx-cc": f"{PINS['neuronx-cc']}+3b612583", "torch": "2.8.0"}) is None


def test_what_was_not_used_says_nothing() -> None:
    assert foreign({"torch-neuronx": PINS["torch-neuronx"], "neuronx-distributed": "absent"}) is None


@pytest.mark.parametrize(
    "found", ["2.23.6484.0+standin", "2.23.6484.01", "2.24.5133.0+3b612583", "2.23.6484.0+3b6125831", "0.0.1", ""]
)
def test_any_other_build_is_named(found: str) -> None:
    said = foreign({**PINS, "neuronx-cc": found})
    assert said == f"neuronx-cc is {found}; accepted: 2.23.6484.0, the build that AWS released with SDK 2.28"

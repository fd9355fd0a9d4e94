"""Variables of a shell: which are dropped, and that none of them reaches a graph."""

from __future__ import annotations

import pytest

from recipes.lowering import LowerRecipe, lower
from recipes.shell import drop_foreign, is_foreign
from tests.build import TEXT_CONFIG


@pytest.mark.parametrize(
    "name", ["XLA_FLAGS", "XLA_IR_DEBUG", "XLA_ANYTHING_NEW", "PT_XLA_DEBUG", "NPROC", "PJRT_NPROC"]
)
def test_what_is_dropped(name: str) -> None:
    assert is_foreign(name)


@pytest.mark.parametrize(
    "name", ["PATH", "NPROCS", "MY_XLA_FLAGS", "PJRT_DEVICE", "AWS_PROFILE", "NEURON_RT_VISIBLE_CORES"]
)
def test_what_stays(name: str) -> None:
    environment = {name: "1", "XLA_FLAGS": "--no"}
    drop_foreign(environment)
    assert environment == {name: "1"}


def test_a_graph_does_not_depend_on_them(monkeypatch: pytest.MonkeyPatch) -> None:
    recipe = LowerRecipe(kv_max=44, kv_bucket=8, tp=1, batch=1, dtype="bfloat16", target="cpu")
    plain = lower(TEXT_CONFIG, recipe, "decode")
    # Each of the first three alone gives another HLO; the last ends the process.
    for name, value in {
        "XLA_IR_DEBUG": "1",
        "XLA_NO_SPECIAL_SCALARS": "1",
        "XLA_DISABLE_FUNCTIONALIZATION": "1",
        "XLA_LAYOUTS": "x",
    }.items():
        monkeypatch.setenv(name, value)
    assert lower(TEXT_CONFIG, recipe, "decode").hlo == plain.hlo

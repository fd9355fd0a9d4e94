"""Why a variant cannot work, and what would: the advice is taken, and works."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from recipes.fit.host import Host
from recipes.plan.advice import reasons
from tests.recipes.plan.conftest import ERROR, WARNING, Maker

Make = Callable[[str], Maker]


def test_nothing_stands_against_what_works(maker: Make) -> None:
    made = maker("E2B")
    assert reasons(made.row(WARNING), made.predictor) == []


def test_an_error_of_the_lint_is_said_with_its_remedy(maker: Make) -> None:
    made = maker("E2B")
    assert reasons(made.row(ERROR, WARNING), made.predictor) == [
        "lint NCC_EVRF001: topk: rejected; choose tokens on the host"
    ]


@pytest.mark.parametrize(
    ("model", "changes"),
    [
        ("12B", {"kv_max": 512, "kv_bucket": 128}),
        ("E4B", {"kv_max": 131_072, "kv_bucket": 1_024, "tp": 2}),
        ("E2B", {"kv_max": 65_536, "kv_bucket": 8_192}),
        ("E2B", {"kv_max": 32_768, "batch": 64, "kv": "host"}),
    ],
)
def test_what_would_work_does(maker: Make, model: str, changes: dict[str, Any]) -> None:
    made = maker(model)
    row = made.row(**changes)
    assert not row.hbm.fits
    against = reasons(row, made.predictor)[0]
    assert re.match(r"HBM per core is \d+\.\d GiB; accepted: at most 16; what would work: ", against)
    offered = re.findall(r"(tp|kv_max|kv_bucket|batch): (\d+)", against)
    assert offered
    for key, value in offered:
        change = {key: int(value)}
        if key == "kv_max":
            change["kv_bucket"] = min(int(value), row.variant.kv_bucket)
        assert made.row(**changes | change).hbm.fits


def test_12b_on_one_core_is_sent_to_two(maker: Make) -> None:
    made = maker("12B")
    (against,) = reasons(made.row(kv_max=256, kv_bucket=64), made.predictor)
    assert "what would work: tp: 2 (1" in against and "kv_max" not in against


@pytest.mark.parametrize(
    ("slim", "sentence"),
    [
        (False, "host memory is 800 GiB; accepted: at most 768, that of inf2.48xlarge; slim: true would leave"),
        (True, "host memory is 800 GiB; accepted: at most 768, that of inf2.48xlarge; nothing smaller is known"),
    ],
)
def test_a_host_that_no_instance_has(maker: Make, slim: bool, sentence: str) -> None:
    made = maker("E2B")
    row = replace(made.row(slim=slim, tp=2), host=Host(compile=1, load=800 << 30, serve=1), instance=None)
    (against,) = reasons(row, made.predictor)
    assert against.startswith(sentence)

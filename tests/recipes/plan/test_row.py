"""One variant's row: what a published build is known to take, and what changes with each key."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from tests.recipes.plan.conftest import ERROR, WARNING, Maker

Make = Callable[[str], Maker]


def test_tp2_of_e2b_is_planned_as_it_was_published(maker: Make) -> None:
    row = maker("E2B").row(tp=2, slim=True)
    assert row.hbm.fits and row.hbm.weights == pytest.approx(2.34e9, abs=5e6)
    # Two ranks of 2.34 GB, tables of 0.81 and 4.70 GB, 32 MB of tokenizer, half a gigabyte of code.
    assert row.artifact == pytest.approx(2 * 2.34e9 + 5.51e9 + 0.03e9 + 0.49e9, rel=0.01)
    assert row.instance is not None and row.instance.name == "inf2.xlarge"
    # A third less than a half of one core's weights, and a sharded head: faster than the published 72.7.
    assert 72.7 < row.step.expected_tok_s < 90
    assert row.decode.floor_ms == pytest.approx(2.34e9 / 440e6, rel=0.03)
    assert row.floor_tok_s == pytest.approx(1000 / row.decode.floor_ms)


def test_a_model_on_the_host_needs_the_larger_host(maker: Make) -> None:
    slim, full = (maker("E2B").row(tp=2, slim=one) for one in (True, False))
    assert full.instance is not None and full.instance.name == "inf2.8xlarge"
    assert (slim.hbm, slim.decode, slim.artifact) == (full.hbm, full.decode, full.artifact)


def test_a_cache_on_the_host_costs_time_and_device_memory(maker: Make) -> None:
    device, host = (maker("E2B").row(kv=kv) for kv in ("device", "host"))
    assert host.hbm.state == 2 * device.hbm.state
    assert host.step.expected_ms > 1.3 * device.step.expected_ms


def test_what_only_the_load_is_too_large_for_is_said(maker: Make) -> None:
    row = maker("E4B").row(tp=2, slim=True)
    assert row.instance is not None and row.instance.name == "inf2.8xlarge"
    assert row.swap is not None and row.swap[0].name == "inf2.xlarge"
    assert row.swap[1] == row.host.load - (16 << 30)
    assert maker("E2B").row(slim=True).swap is None


def test_machines_get_the_same(maker: Make) -> None:
    row = maker("E2B").row(ERROR, WARNING, tp=2)
    found = json.loads(json.dumps(row.as_json()))
    assert (found["checkpoint"], found["variant"], found["tp"], found["kv"]) == ("checkpoint", "v", 2, "device")
    assert found["lint"] == {"error": 1, "warn": 3, "info": 0}
    assert found["hbm"]["total"] == row.hbm.total and found["hbm"]["fits"] is True
    assert found["decode"]["expected_tok_s"] == row.step.expected_tok_s
    assert found["decode"]["flops"] == found["prefill"]["flops"] == 4_000_000_000
    assert (found["instance"], found["usd_per_hour"]) == ("inf2.8xlarge", 1.97)

"""Device memory against the two published accounts, and against a count on paper."""

from __future__ import annotations

import pytest

from recipes.fit.hbm import Hbm, Pair, area, hbm_of
from recipes.fit.instances import CORE_HBM
from tests.recipes.fit.fake import signature

PAIR: Pair = {"prefill": signature("prefill", tokens=3), "decode": signature("decode", batch=2)}


def test_what_signatures_tell_is_counted_and_shared_where_it_is_shared() -> None:
    found = hbm_of({"prefill": PAIR["prefill"], "decode": PAIR["decode"]}, layers=2, kv="device", builder="nxd")
    assert found.weights == 200
    assert found.state == 2 * 2 * (4 * 2 + 8 * 4) * 2  # the decode graph has two sequences
    assert found.io == (2 * 24 + 4 * 3 + 40) + (2 * 16 + 4 * 2 + 80)
    assert found.total == sum((found.weights, found.state, found.io, found.scratch, found.code, found.reserved))


def test_each_traced_graph_has_weights_of_its_own() -> None:
    shared = hbm_of(PAIR, layers=2, kv="host", builder="nxd")
    inlined = hbm_of(PAIR, layers=2, kv="host", builder="trace")
    assert inlined.total == shared.total + 200


def test_one_graph_for_both_counts_once() -> None:
    """A traced graph with the cache on the device serves prefill and decode: its width decides, and decode has none."""
    found = hbm_of(PAIR, layers=2, kv="device", builder="trace")
    assert found == hbm_of({"prefill": PAIR["prefill"]}, layers=2, kv="device", builder="nxd")


def test_a_cache_on_the_host_is_input_and_output() -> None:
    device, host = (hbm_of({"decode": PAIR["decode"]}, layers=2, kv=kv, builder="nxd") for kv in ("device", "host"))
    assert (host.state, host.total - host.state) == (2 * device.state, device.total - device.state)


def _of_context(rows: int, bucket: int, layers: int) -> Hbm:
    return hbm_of(
        {"prefill": signature("prefill", bucket, rows), "decode": signature("decode", 1, rows)}, layers, "device", "nxd"
    )


def test_scratch_and_code_are_those_of_the_account_of_128k() -> None:
    """E2B on two ranks, chunks of 512 over 131,072 rows, 35 layers: 5.19 and 1.65 GB."""
    assert area(signature("prefill", 512, 131_072)) == 67_108_864
    found = _of_context(131_072, 512, 35)
    assert found.scratch == pytest.approx(5.19e9)
    assert found.code == pytest.approx(1.65e9)


def test_another_account_of_128k_comes_out() -> None:
    """E4B on four ranks: 15.16 GB per core, with 4.33 of weights and 28,672 bytes of cache a row."""
    found = _of_context(131_072, 512, 42)
    rest = found.scratch + found.code + found.reserved
    assert 4.33e9 + 28_672 * 131_072 + rest == pytest.approx(15.16e9, rel=0.01)


def test_a_small_point_has_the_code_of_the_account_of_26b() -> None:
    """8.57 GB per core with 8.05 of weights: half a gigabyte for all else, 256 rows and 30 layers."""
    found = _of_context(256, 64, 30)
    assert 8.05e9 + found.scratch + found.code + found.reserved == pytest.approx(8.57e9, rel=1e-3)


@pytest.mark.parametrize(("weights", "fits"), [(CORE_HBM - 5, True), (CORE_HBM - 4, False)])
def test_a_core_holds_16_gib_and_not_a_byte_more(weights: int, fits: bool) -> None:
    assert CORE_HBM == 17_179_869_184
    assert Hbm(weights, state=1, io=1, scratch=1, code=1, reserved=1).fits is fits

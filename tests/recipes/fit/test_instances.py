"""The choice of an instance."""

from __future__ import annotations

import pytest

from recipes.fit.instances import GIB, INSTANCES, cheapest, with_swap


@pytest.mark.parametrize(
    ("tp", "host", "name"),
    [
        (1, 16 * GIB, "inf2.xlarge"),
        (2, 16 * GIB, "inf2.xlarge"),
        (2, 16 * GIB + 1, "inf2.8xlarge"),
        (4, 1, "inf2.24xlarge"),
        (8, 385 * GIB, "inf2.48xlarge"),
        (24, 1, "inf2.48xlarge"),
    ],
)
def test_the_cheapest_that_holds_both(tp: int, host: int, name: str) -> None:
    found = cheapest(tp, host)
    assert found is not None and found.name == name


@pytest.mark.parametrize(("tp", "host"), [(25, 1), (1, 768 * GIB + 1)])
def test_there_may_be_none(tp: int, host: int) -> None:
    assert cheapest(tp, host) is None
    assert with_swap(tp, host, host) is None


def test_a_peak_at_load_may_go_to_swap() -> None:
    assert with_swap(2, 8 * GIB, 30 * GIB) == (INSTANCES[0], 14 * GIB)
    assert with_swap(2, 8 * GIB, 15 * GIB) == (INSTANCES[0], 0)


def test_the_table_is_that_of_the_architecture_page() -> None:
    assert [(one.cores, one.vcpu, one.host_gib) for one in INSTANCES] == [
        (2, 4, 16),
        (2, 32, 128),
        (12, 96, 384),
        (24, 192, 768),
    ]
    assert [one.usd for one in INSTANCES] == sorted(one.usd for one in INSTANCES)

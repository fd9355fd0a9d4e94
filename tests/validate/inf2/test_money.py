"""Terms: whatever is left, and whatever the prices are, no machine can cost more than is left."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from validate.inf2.money import GRACE, LEAST, Limits, Terms

dollars = st.floats(min_value=0.0, max_value=1000.0)
prices = st.floats(min_value=0.01, max_value=50.0)
minutes = st.integers(min_value=30, max_value=48 * 60)


def most(terms: Terms, disk: float) -> float:
    """What AWS can bill: the highest price it may take and the disk, for the timer and what is around it."""
    return (float(f"{terms.price:.4f}") + disk) * (terms.minutes + GRACE) / 60


@given(dollars, prices, st.floats(min_value=0.0, max_value=1.0), minutes, st.none() | prices)
def test_what_is_left_is_never_passed(left: float, price: float, disk: float, whole: int, spot: float | None) -> None:
    limits = Limits(on_demand=price, disk=disk, minutes=whole)
    for terms in (limits.spot_terms(left, spot), limits.on_demand_terms(left)):
        if terms is None:
            continue
        # A price on demand is AWS's own and not rounded; MaxPrice has four decimals, as it is sent.
        bill = most(terms, disk) if terms.market == "spot" else terms.reserve
        assert bill <= left + 1e-4 * (whole + GRACE) / 60
        assert terms.reserve <= left
        assert LEAST <= terms.minutes <= whole
        assert terms.price <= price


@given(prices, minutes)
def test_enough_money_buys_all_the_time(price: float, whole: int) -> None:
    limits = Limits(on_demand=price, disk=0.02, minutes=whole)
    left = (price + 0.02) * (whole + GRACE) / 60 + 0.01
    terms = limits.on_demand_terms(left)
    assert terms
    assert terms.minutes == whole


@pytest.mark.parametrize(
    ("left", "price", "time"),
    [
        (10.0, 1.0, 180),  # all of the time at any spot price
        (2.0, 0.6115, 180),  # all of it, while the price is under what is left for each hour
        (0.5, 0.33, 75),  # less time, a little above today's 0.30
        (0.1, None, None),
    ],
)
def test_a_spot_machine_by_hand(left: float, price: float | None, time: int | None) -> None:
    terms = Limits(on_demand=1.0, disk=0.02, minutes=180).spot_terms(left, 0.30)
    assert (terms.price if terms else None) == price
    assert (terms.minutes if terms else None) == time

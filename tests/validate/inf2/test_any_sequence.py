"""Whatever sequence of errors AWS gives, nothing is left running and the ceiling holds."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ledger.errors import FoundryError
from tests.validate.inf2.orders import order, works
from tests.validate.inf2.world import LOST, Rented, World, world

CODES = st.sampled_from(
    [
        None,
        None,
        "InsufficientInstanceCapacity",
        "SpotMaxPriceTooLow",
        "MaxSpotInstanceCountExceeded",
        "Unsupported",
        "InternalError",
        "RequestLimitExceeded",
        "UnauthorizedOperation",
        "InvalidParameterValue",
        "ConnectionClosed",
        LOST,
    ]
)
OPERATIONS = st.sampled_from(
    [
        "RunInstances",
        "RunInstances",
        "DescribeInstances",
        "TerminateInstances",
        "DescribeInstanceTypeOfferings",
        "DescribeSpotPriceHistory",
        "GetObject",
        "PutObject",
        "ListObjectsV2",
    ]
)
FAULTS = st.lists(st.tuples(OPERATIONS, CODES), max_size=25)
# Minutes after which the machine of each attempt is taken back, or nothing of the kind.
RECLAIMS = st.lists(st.none() | st.integers(min_value=1, max_value=90), max_size=4)


class Blow(BaseException):
    """An interrupt at any moment at which the caller waits."""


def script(here: World, faults: list[tuple[str, str | None]]) -> None:
    """Each operation gives its errors one after the other, and then none."""
    for operation in {name for name, _ in faults}:
        answers: Iterator[str | None] = iter([code for name, code in faults if name == operation])
        here.faults[operation] = lambda _, answers=answers: next(answers, None)  # type: ignore[misc]


def holds(
    faults: list[tuple[str, str | None]],
    reclaims: list[int | None],
    on_demand: bool,
    ceiling: float,
    blow: int | None,
) -> None:
    """Rent under these errors, and count what is left and what was spent."""
    asked = order()
    with world(on_demand=on_demand, ceiling_usd=ceiling, wait_hours=1.0, max_hours=2.0) as here:
        script(here, faults)
        plain, left = works(here, asked, minutes=25), iter(reclaims)

        def program(machine: Rented) -> Any:
            steps, taken = plain(machine), next(left, None)
            if taken is not None:
                steps.append((60.0 * taken, here.take))
            return sorted(steps, key=lambda step: step[0])

        def count(_: float) -> None:
            nonlocal blow
            if blow is not None and (blow := blow - 1) < 0:
                blow = None
                raise Blow

        here.program, here.on_sleep = program, count
        try:
            found = here.rent(asked)
        except (FoundryError, Blow):
            pass
        except Exception as error:
            # Of AWS alone, and only from a place where no machine is at stake.
            assert type(error).__module__.startswith("botocore"), error
        else:
            assert set(found) == {"parity", "bench"}
        assert here.alive() == []
        assert here.spent() <= ceiling


ERRORS = (FAULTS, RECLAIMS, st.booleans(), st.floats(min_value=0.2, max_value=4.0), st.none() | st.integers(0, 30))
few = settings(max_examples=12, suppress_health_check=[HealthCheck.too_slow])
many = settings(max_examples=400, suppress_health_check=[HealthCheck.too_slow])
test_nothing_is_left_and_the_ceiling_holds = few(given(*ERRORS)(holds))
test_it_holds_for_many_more = pytest.mark.soak(many(given(*ERRORS)(holds)))

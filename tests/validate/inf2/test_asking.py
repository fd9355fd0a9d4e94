"""Asking for a machine: where, in which order and at what price, and what a refusal or a lost answer leads to.

Each test ends in the same question, put to moto by `world()`: is anything left running?
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from pydantic import ValidationError

from ledger.errors import BadInput
from tests.validate.inf2.orders import dies_after, order, works
from tests.validate.inf2.world import LOST, START, World, cloud, world
from validate.inf2.asking import CeilingReached
from validate.inf2.failed import RentFailed
from validate.inf2.machines import ATTEMPT, DEADLINE, RUN, RUNS, WHO

NONE_LEFT = "InsufficientInstanceCapacity"


def always(code: str) -> Callable[[dict[str, Any]], str]:
    return lambda _: code


def until(hours: float, code: str, here: World) -> Callable[[dict[str, Any]], str | None]:
    return lambda _: code if here.now < START + 3600 * hours else None


def market(asked: dict[str, Any]) -> str:
    return "spot" if "InstanceMarketOptions" in asked else "on-demand"


def test_the_machine_is_asked_for_with_everything_that_ends_it() -> None:
    asked = order()
    with world() as here:
        here.program = works(here, asked)
        here.rent(asked)
        (machine,) = here.rented
        told = machine.asked
        assert told["InstanceType"] == "inf2.xlarge"
        assert told["InstanceInitiatedShutdownBehavior"] == "terminate"
        assert told["InstanceMarketOptions"]["SpotOptions"]["SpotInstanceType"] == "one-time"
        assert told["InstanceMarketOptions"]["SpotOptions"]["InstanceInterruptionBehavior"] == "terminate"
        assert told["MetadataOptions"]["HttpTokens"] == "required"
        assert told["IamInstanceProfile"] == {"Name": "foundry"}
        assert all(one["Ebs"]["DeleteOnTermination"] for one in told["BlockDeviceMappings"])
        tagged = {
            one["ResourceType"]: {tag["Key"]: tag["Value"] for tag in one["Tags"]} for one in told["TagSpecifications"]
        }
        assert set(tagged) == {"instance", "volume", "network-interface", "spot-instances-request"}
        for tags in tagged.values():
            assert (tags[RUNS], tags[RUN], tags[ATTEMPT]) == ("s3://foundry-test/runs", asked.run, "1")
            assert "@" in tags[WHO]
            assert tags[DEADLINE].startswith("2027-01-15T")


def test_an_hour_of_drought_and_then_capacity() -> None:
    asked = order()
    with world() as here:
        here.program = works(here, asked)
        here.faults["RunInstances"] = until(1, NONE_LEFT, here)
        here.rent(asked)
        zones = {one["Placement"]["AvailabilityZone"] for one in here.asked}
        assert len(zones) == 8, "every zone of both regions that offers the kind"
        assert here.rented[0].start >= START + 3600
        assert len({one["ClientToken"] for one in here.asked}) == len(here.asked)
        pauses = [float(line.split()[-2]) for line in here.said if "asking again" in line]
        assert pauses == sorted(pauses)
        assert pauses[0] < 31
        assert pauses[-1] > 300


def test_the_cheapest_zone_is_asked_first() -> None:
    with world(wait_hours=0.0) as here:
        here.prices = {"us-west-2b": 0.11, "us-east-1f": 0.22}
        here.faults["RunInstances"] = always(NONE_LEFT)
        with pytest.raises(RentFailed):
            here.rent(order())
        zones = [one["Placement"]["AvailabilityZone"] for one in here.asked]
        assert zones[:3] == ["us-west-2b", "us-east-1f", "us-east-1a"]


def test_a_drought_that_lasts_is_given_up_in_one_sentence() -> None:
    with world(wait_hours=1.0) as here:
        here.faults["RunInstances"] = always(NONE_LEFT)
        with pytest.raises(
            RentFailed, match=r"no inf2.xlarge in us-east-1, us-west-2 for 1 h.*InsufficientInstanceCapacity \(8\)"
        ):
            here.rent(order())
        assert here.now <= START + 3600
        assert here.spent() == 0


@pytest.mark.parametrize("code", [NONE_LEFT, "SpotMaxPriceTooLow", "MaxSpotInstanceCountExceeded"])
def test_on_demand_is_asked_for_where_no_spot_is(code: str) -> None:
    asked = order()
    with world(on_demand=True) as here:
        here.program = works(here, asked)
        here.faults["RunInstances"] = lambda told: code if market(told) == "spot" else None
        here.rent(asked)
        assert [one.market for one in here.rented] == ["on-demand"]
        assert here.now < START + 2 * 3600, "without a pause before it"
        # A region whose share is used up is not asked zone by zone.
        spots = [one for one in here.asked if market(one) == "spot"]
        assert len(spots) == (2 if code == "MaxSpotInstanceCountExceeded" else 8)


def test_on_demand_is_not_asked_for_unless_allowed() -> None:
    with world(wait_hours=0.5) as here:
        here.faults["RunInstances"] = always(NONE_LEFT)
        with pytest.raises(RentFailed):
            here.rent(order())
        assert {market(one) for one in here.asked} == {"spot"}


def test_a_zone_that_does_not_offer_the_kind_is_asked_once() -> None:
    asked = order()
    with world(wait_hours=2.0) as here:
        here.program = works(here, asked)

        def fault(told: dict[str, Any]) -> str | None:
            zone = told["Placement"]["AvailabilityZone"]
            return "Unsupported" if zone.startswith("us-east-1") else until(0.2, NONE_LEFT, here)(told)

        here.faults["RunInstances"] = fault
        here.rent(asked)
        east = [one for one in here.asked if one["Placement"]["AvailabilityZone"].startswith("us-east-1")]
        assert len(east) == 4


def test_what_no_zone_will_ever_have_is_not_waited_for() -> None:
    with world(wait_hours=6.0) as here:
        here.faults["RunInstances"] = always("VPCIdNotSpecified")
        with pytest.raises(
            RentFailed, match=r"every zone refuses .* for good \(us-east-1a spot VPCIdNotSpecified, .*subn"
        ):
            here.rent(order())
        assert here.now < START + 600


def test_regions_that_do_not_answer_are_named() -> None:
    with world(wait_hours=0.2) as here:
        here.faults["DescribeInstanceTypeOfferings"] = always("ConnectionClosed")
        with pytest.raises(RentFailed, match="the last answers being us-east-1 does not answer, us-west-2 does"):
            here.rent(order())


def test_a_machine_of_an_attempt_that_another_caller_gave_up_is_ended() -> None:
    """Its request took so long that nobody could know whether it had arrived."""
    asked = order()
    with world() as here:
        here.program = works(here, asked)

        def forgets(_: dict[str, Any]) -> None:
            if len(here.asked) == 1:
                other = here.run(asked.run)
                other.book.read()
                other.never_was(other.book.record.open()[0])

        here.faults["RunInstances"] = forgets
        here.rent(asked)
        first, second = here.rented
        assert first.end == first.start
        assert second.attempt == 2


def test_a_ceiling_that_buys_nothing_asks_for_nothing() -> None:
    with world(ceiling_usd=0.01) as here:
        with pytest.raises(CeilingReached, match=r"0\.00 of 0\.01 USD"):
            here.rent(order())
        assert here.asked == []


def test_a_request_whose_answer_is_lost_is_found_by_its_tag() -> None:
    asked = order()
    with world() as here:
        here.program = works(here, asked)
        here.faults["RunInstances"] = lambda told: LOST if len(here.asked) == 1 else None
        here.rent(asked)
        assert len(here.rented) == 1, "and no second one is asked for"


def test_a_request_that_never_arrived_is_asked_again() -> None:
    asked = order()
    with world() as here:
        here.program = works(here, asked)
        here.faults["RunInstances"] = lambda told: "ConnectionClosed" if len(here.asked) == 1 else None
        here.rent(asked)
        assert [one.attempt for one in here.rented] == [2]


@pytest.mark.parametrize("code", ["UnauthorizedOperation", "InvalidParameterValue", "AuthFailure"])
def test_what_waiting_would_not_mend_is_said_at_once(code: str) -> None:
    with world() as here:
        here.faults["RunInstances"] = always(code)
        with pytest.raises(BadInput, match=rf"AWS refuses a machine \({code}: as the test wants it\)"):
            here.rent(order())
        assert here.now == START, "and not when it is sure that there is no machine"
        assert len(here.asked) == 1


def test_an_image_parameter_that_is_not_there_is_bad_input() -> None:
    said = r"inf2\.base_image: /foundry/none is not known in us-east-1"
    with world(base_image="/foundry/none") as here, pytest.raises(BadInput, match=said):
        here.rent(order())


@pytest.mark.parametrize(
    ("operation", "code"), [("DescribeImages", "InvalidAMIID.Malformed"), ("GetParameter", "ValidationException")]
)
def test_an_image_parameter_that_names_no_image_is_bad_input(operation: str, code: str) -> None:
    with world() as here:
        here.faults[operation] = always(code)
        with pytest.raises(BadInput, match=rf"inf2\.base_image: /foundry/base is not known in us-east-1 \({code}: as"):
            here.rent(order())
        assert here.now == START


def test_the_longest_address_for_runs_is_in_the_tag_whole() -> None:
    longest = "s3://foundry-test/" + "r" * 238
    with world(runs=longest) as here:
        dies_after(here, 600, order())
        (machine,) = here.alive()
        tags = {tag["Key"]: tag["Value"] for tag in machine.asked["TagSpecifications"][0]["Tags"]}
        assert tags[RUNS] == longest and len(longest) == 256
        here.take(machine)
        with pytest.raises(ValidationError, match="at most 256 characters"):
            cloud(runs=f"{longest}r")

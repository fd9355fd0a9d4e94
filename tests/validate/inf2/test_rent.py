"""Renting, against moto and what moto cannot do: drought, reclaim, lost answers, interrupts, the ceiling.

Each test ends in the same question, put to moto by `world()`: is anything left running? The bill is the world's own.
"""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable
from typing import Any

import pytest

from ledger.errors import BadInput
from tests.validate.inf2.orders import answer, data, order, works
from tests.validate.inf2.world import LOST, START, Rented, World, world
from validate.inf2.asking import CeilingReached
from validate.inf2.checking import Foreign
from validate.inf2.failed import RentFailed
from validate.inf2.machines import ATTEMPT, DEADLINE, RUN, RUNS, WHO
from validate.inf2.rent import close

NONE_LEFT = "InsufficientInstanceCapacity"


def always(code: str) -> Callable[[dict[str, Any]], str]:
    return lambda _: code


def until(hours: float, code: str, here: World) -> Callable[[dict[str, Any]], str | None]:
    return lambda _: code if here.now < START + 3600 * hours else None


def market(asked: dict[str, Any]) -> str:
    return "spot" if "InstanceMarketOptions" in asked else "on-demand"


def test_a_run_brings_both_receipts_from_one_spot_machine() -> None:
    asked = order()
    with world() as here:
        here.program = works(here, asked)
        found = here.rent(asked)
        assert {name: receipt.verdict for name, receipt in found.items()} == {"parity": "passed", "bench": "done"}
        assert found["bench"] == answer(asked, "bench")
        assert [one.market for one in here.rented] == ["spot"]
        assert any("| machine: at work" in line for line in here.said)
        assert 0 < here.spent() <= 10


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


def test_a_machine_that_aws_takes_back_is_followed_by_one_that_goes_on() -> None:
    asked = order()
    with world() as here:
        plain = works(here, asked)
        takes = [(120 + 60 * 45, here.take)]
        here.program = lambda one: (
            plain(one) if one.attempt > 1 else sorted([*plain(one), *takes], key=lambda step: step[0])
        )
        here.rent(asked)
        first, second = here.rented
        assert first.end == first.start + 120 + 60 * 45
        # Parity had come before the reclaim, so the second did bench alone.
        assert second.end is not None
        assert second.end - second.start < 60 * 45
        assert any("has taken" in line for line in here.said)
        assert here.spent() <= 10


def test_the_ceiling_counts_all_machines_of_a_run() -> None:
    asked = order()
    with world(ceiling_usd=1.0) as here:
        # Each is taken back after half an hour and has done nothing.
        here.program = lambda _: [(1800, here.take)]
        with pytest.raises(CeilingReached, match=r"0\.\d\d of 1\.00 USD are spent, and the rest buys no inf2\.xlarge"):
            here.rent(asked)
        assert len(here.rented) >= 2
        assert 0.5 < here.spent() <= 1.0
        # Nor does another caller start from zero.
        with pytest.raises(CeilingReached):
            here.rent(asked)
        assert 0.5 < here.spent() <= 1.0


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


@pytest.mark.parametrize("operation", ["DescribeInstances", "ListObjectsV2", "GetObject"])
def test_a_connection_that_is_lost_for_ten_minutes_is_waited_for(operation: str) -> None:
    asked = order()
    with world() as here:
        here.program = works(here, asked)
        here.faults[operation] = lambda _: (
            "ConnectionClosed" if here.rented and here.now < here.rented[0].start + 600 else None
        )
        found = here.rent(asked)
        assert len(found) == 2
        assert len(here.rented) == 1


def test_a_connection_that_stays_lost_leaves_the_end_to_the_machine_itself() -> None:
    asked = order()
    with world(max_hours=1.0) as here:
        here.program = lambda _: []
        for operation in ("DescribeInstances", "ListObjectsV2", "GetObject", "TerminateInstances", "PutObject"):
            here.faults[operation] = lambda _: (
                "ConnectionClosed" if here.rented and here.now > here.rented[0].start + 300 else None
            )
        with pytest.raises(RentFailed, match="AWS has not answered for 15 minutes"):
            here.rent(asked)
        (machine,) = here.alive()
        assert any(f"{machine.id} in {machine.region} may still run" in line for line in here.said)
        # Nobody is there any more, and the timer is the machine's.
        here.sleep(3600 + 600)
        assert here.spent() <= 10


def interrupt() -> None:
    raise KeyboardInterrupt


def hang_up() -> None:
    os.kill(os.getpid(), signal.SIGTERM)


@pytest.mark.parametrize(("blow", "raised"), [(interrupt, KeyboardInterrupt), (hang_up, SystemExit)])
def test_whoever_is_interrupted_terminates_first(blow: Callable[[], None], raised: type[BaseException]) -> None:
    with world() as here:
        here.on_sleep = lambda _: blow() if here.rented and here.now > here.rented[0].start + 300 else None
        with pytest.raises(raised):
            here.rent(order())
        assert len(here.rented) == 1


def test_a_second_interrupt_does_not_stop_the_termination() -> None:
    with world() as here:
        here.on_sleep = lambda _: os.kill(os.getpid(), signal.SIGINT) if here.rented else None
        failing = iter(["InternalError"] * 3)
        here.faults["TerminateInstances"] = lambda _: next(failing, None)
        with pytest.raises(KeyboardInterrupt):
            here.rent(order())


def test_a_reader_that_has_gone_keeps_no_machine_alive() -> None:
    with world() as here:
        run = here.run(order().run)

        def gone(_: str) -> None:
            raise BrokenPipeError

        run.tell = gone
        here.program = works(here, order())
        assert len(here.rent(order(), run)) == 2


@pytest.mark.parametrize("code", ["UnauthorizedOperation", "InvalidParameterValue", "AuthFailure"])
def test_what_waiting_would_not_mend_is_said_at_once(code: str) -> None:
    with world() as here:
        here.faults["RunInstances"] = always(code)
        with pytest.raises(BadInput, match=rf"AWS refuses a machine \({code}: as the test wants it\)"):
            here.rent(order())
        assert here.now - START < 200
        assert len(here.asked) == 1


def test_a_failed_parity_comes_back_as_one_and_the_next_run_asks_again() -> None:
    asked = order()
    failed = answer(asked, "parity", "failed")
    with world() as here:
        here.program = lambda _: [(900, lambda one: here.leave(one, "receipts/parity.failed.json", data(failed)))]
        run = here.run(asked.run)
        found = here.rent(asked, run)
        assert found == {"parity": failed}
        close(run, found)
        here.program = works(here, asked)
        assert here.rent(asked)["parity"].verdict == "passed"
        assert [one.attempt for one in here.rented] == [1, 2]


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"source": "f" * 64}, "its source is"),
        ({"recipe": {"epsilon": 9.0}}, "its recipe is"),
        ({"inputs": {}}, "its inputs is"),
        ({"facts": {"artifact": "f" * 64}}, "its artifact is"),
        ({"stage": "bench"}, "its stage is"),
        ({"verdict": "done"}, "its verdict is"),
    ],
)
def test_a_receipt_of_something_else_is_refused_and_removed(changes: dict[str, Any], said: str) -> None:
    asked = order()
    with world() as here:
        foreign = data(answer(asked, "parity").model_copy(update=changes))
        here.program = lambda _: [
            (600, lambda one: here.leave(one, "receipts/parity.json", foreign)),
            (700, lambda one: here.leave(one, "receipts/bench.json", data(answer(asked, "bench")))),
        ]
        with pytest.raises(Foreign, match=said):
            here.rent(asked)
        assert "receipts/parity.json" not in " ".join(here.files())


def test_a_damaged_receipt_is_refused() -> None:
    asked = order()
    with world() as here:
        here.program = lambda _: [(600, lambda one: here.leave(one, "receipts/parity.failed.json", b"{"))]
        with pytest.raises(Foreign, match="cannot be read"):
            here.rent(asked)


def test_a_machine_that_fails_says_why() -> None:
    with world() as here:
        log = b"machine: pulling\nerror: this machine cannot be inf2-serve: driver\nmake: *** [hardware] Error 1\n"
        here.program = lambda _: [
            (300, lambda one: here.leave(one, f"logs/{one.attempt}.txt", log)),
            (301, lambda one: here.leave(one, f"status/{one.attempt}.json", json.dumps({"code": 2}).encode())),
            (302, lambda one: here.take(one, "Client.InstanceInitiatedShutdown")),
        ]
        with pytest.raises(
            RentFailed, match="exit code 2: this machine cannot be inf2-serve: driver; its log is s3://"
        ):
            here.rent(order())
        assert len(here.rented) == 1, "and no second one fails in the same way"


def test_a_machine_that_is_too_slow_ends_itself_and_what_it_did_is_kept() -> None:
    asked = order()
    with world(max_hours=0.5) as here:
        here.program = works(here, asked, minutes=20)
        with pytest.raises(RentFailed, match="has shut itself down after 30 minutes"):
            here.rent(asked)
        assert here.rent(asked)["bench"] == answer(asked, "bench")


def test_a_machine_that_somebody_ended_is_told_so() -> None:
    with world() as here:
        here.program = lambda _: [(400, lambda one: here.take(one, "Client.UserInitiatedShutdown"))]
        with pytest.raises(RentFailed, match=r"ended without a receipt \(Client.UserInitiatedShutdown\)"):
            here.rent(order())


def test_a_caller_that_died_is_followed_by_one_that_goes_on_with_its_machine() -> None:
    asked = order()
    with world() as here:
        here.program = works(here, asked)
        dies_after(here, 600, asked)
        (machine,) = here.alive()
        here.rent(asked)
        assert here.rented == [machine]
        assert any(f"goes on with {machine.id}" in line for line in here.said)


def test_a_caller_that_comes_late_takes_what_is_on_s3() -> None:
    asked = order()
    with world() as here:
        here.program = works(here, asked)
        dies_after(here, 600, asked)
        here.sleep(3600 * 3)
        assert here.alive() == []
        assert here.rent(asked)["bench"] == answer(asked, "bench")
        assert len(here.rented) == 1


def test_two_callers_of_one_run_share_one_machine() -> None:
    """A second caller that comes while the first one's request is under way asks for none."""
    asked = order()
    with world() as here:
        here.program = works(here, asked)
        second: list[Any] = []

        def meanwhile(told: dict[str, Any]) -> str | None:
            if not second:
                second.append(here.run(asked.run))
                second[0].book.read()
                assert len(second[0].book.record.open()) == 1
            return None

        here.faults["RunInstances"] = meanwhile
        here.rent(asked)
        assert len(here.rented) == 1


def test_a_machine_that_is_not_in_the_record_is_terminated() -> None:
    asked = order()
    with world() as here:
        dies_after(here, 600, asked)
        stranger = here.rented[0]
        here.s3.delete_object(Bucket="foundry-test", Key=f"runs/{asked.run}/record.json")
        here.program = works(here, asked)
        here.rent(asked)
        assert stranger.end is not None
        assert any("one too many" in line for line in here.said)


def test_an_image_parameter_that_is_not_there_is_bad_input() -> None:
    said = r"inf2\.base_image: /foundry/none is not known in us-east-1"
    with world(base_image="/foundry/none") as here, pytest.raises(BadInput, match=said):
        here.rent(order())


def dies_after(here: World, seconds: float, asked: Any) -> None:
    """A caller rents, and after some seconds is no more: nothing it would have done at its end is done."""

    class Killed(BaseException):
        pass

    def kill(_: float) -> None:
        if here.rented and here.now > here.rented[0].start + seconds:
            raise Killed

    run = here.run(asked.run)
    here.on_sleep = kill
    run.release = list  # type: ignore[method-assign]  # a dead caller releases nothing
    with pytest.raises(Killed):
        here.rent(asked, run)
    here.on_sleep = lambda _: None


def test_the_world_bills_by_the_hour() -> None:
    """The oracle of the other tests: an hour at the highest price, and the disk."""
    with world() as here:
        here.program = lambda _: [(3600, lambda one: here.take(one, "Client.UserInitiatedShutdown"))]
        with pytest.raises(RentFailed):
            here.rent(order())
        (machine,) = here.rented
        price = float(machine.asked["InstanceMarketOptions"]["SpotOptions"]["MaxPrice"])
        assert here.spent() == pytest.approx(price + 200 * 0.08 / 730, rel=1e-6)
        assert isinstance(machine, Rented)

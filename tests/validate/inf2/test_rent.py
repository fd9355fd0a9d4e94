"""Renting as a whole: the receipts that a run brings or refuses, and callers that follow or meet each other.

Each test ends in the same question, put to moto by `world()`: is anything left running? The bill is the world's own.
"""

from __future__ import annotations

from typing import Any

import pytest

from tests.validate.inf2.orders import answer, data, dies_after, order, works
from tests.validate.inf2.world import Rented, cloud, world
from validate.inf2.checking import Foreign
from validate.inf2.clock import Clock
from validate.inf2.failed import RentFailed
from validate.inf2.order import StageName
from validate.inf2.rent import close


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


def test_the_world_bills_by_the_hour() -> None:
    """The oracle of the other tests: an hour at the highest price, and the disk."""
    with world() as here:
        here.program = lambda _: [(3600, lambda one: here.take(one, "Client.InstanceInitiatedShutdown"))]
        with pytest.raises(RentFailed):
            here.rent(order())
        (machine,) = here.rented
        price = float(machine.asked["InstanceMarketOptions"]["SpotOptions"]["MaxPrice"])
        assert here.spent() == pytest.approx(price + 1.5 * 200 * 0.08 / 730, rel=1e-6)
        assert isinstance(machine, Rented)


@pytest.mark.parametrize("there", [{"bench": "failed"}, {"parity": "passed", "beside": "failed"}])
def test_a_failed_receipt_that_stands_alone_decides_nothing(there: dict[str, Any]) -> None:
    """It is of an earlier run: bench without its parity, or a parity that has passed since."""
    asked = order()
    with world() as here:
        folder = here.run(asked.run).folder
        if "parity" in there:
            folder.write("receipts/parity.json", data(answer(asked, "parity")))
        stage: StageName = "bench" if "bench" in there else "parity"
        folder.write(f"receipts/{stage}.failed.json", data(answer(asked, stage, "failed")))
        here.program = works(here, asked)
        found = here.rent(asked)
        assert {name: receipt.verdict for name, receipt in found.items()} == {"parity": "passed", "bench": "done"}
        assert "failed" not in " ".join(here.files())


def test_a_failed_receipt_that_comes_alone_is_removed_and_the_machine_goes_on() -> None:
    asked = order()
    with world() as here:
        stray = data(answer(asked, "bench", "failed"))
        plain = works(here, asked)
        here.program = lambda one: [(60, lambda one: here.leave(one, "receipts/bench.failed.json", stray)), *plain(one)]
        assert set(here.rent(asked)) == {"parity", "bench"}
        assert len(here.rented) == 1


def test_a_machine_in_a_region_that_is_no_longer_named_is_gone_on_with() -> None:
    asked = order()
    with world() as here:
        here.program = works(here, asked)
        here.faults["RunInstances"] = lambda told: (
            "InsufficientInstanceCapacity" if told["Placement"]["AvailabilityZone"].startswith("us-east-1") else None
        )
        dies_after(here, 600, asked)
        here.section = cloud(regions={"us-east-1": {}})
        here.rent(asked)
        assert [one.region for one in here.rented] == ["us-west-2"]


def test_a_caller_whose_clock_is_ahead_keeps_a_good_machine() -> None:
    asked = order()
    with world() as here:
        here.program = works(here, asked)
        dies_after(here, 600, asked)
        run = here.run(asked.run)
        run.clock = Clock(now=lambda: here.now + 4 * 3600, sleep=here.sleep, jitter=lambda: 0.5)
        here.rent(asked, run)
        assert len(here.rented) == 1

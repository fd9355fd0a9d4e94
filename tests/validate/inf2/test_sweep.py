"""Sweep: what is left over all regions, by tag; nothing of anybody else's."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import boto3
import pytest
import yaml

from ledger.errors import BadInput
from tests.validate.inf2.orders import dies_after, order
from tests.validate.inf2.world import REGIONS, World, world
from validate.inf2.failed import RentFailed
from validate.inf2.machines import RUNS
from validate.inf2.sweep import main

GOOD = Path(__file__).parents[2] / "config/good/rented_inf2.yaml"


@pytest.fixture
def config(tmp_path: Path) -> Path:
    """A configuration whose runs are those of `world`."""
    found = yaml.safe_load(GOOD.read_text())
    found["inf2"] |= {"runs": "s3://foundry-test/runs", "regions": {name: {} for name in REGIONS}}
    path = tmp_path / "config.yaml"
    path.write_text(yaml.safe_dump(found))
    return path


def swept(here: World, *arguments: str | Path) -> int:
    return main([str(one) for one in arguments], here.clients, here.clock)


def test_leftovers_are_listed_and_left_alone(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with world() as here:
        dies_after(here, 600, order())
        (machine,) = here.alive()
        assert swept(here, config) == 0
        said = capsys.readouterr().out
        assert f"{machine.region} {machine.id} inf2.xlarge running: run {order().run[:12]} of " in said
        assert "ends at 2027-01-15T" in said and "overdue" not in said
        assert here.alive() == [machine]
        assert swept(here, config, "--terminate", "--overdue") == 0
        assert here.alive() == [machine], "not past its deadline"
        assert swept(here, config, "--terminate") == 0
        assert here.alive() == []


def test_a_machine_that_is_swept_binds_no_money_any_more(config: Path) -> None:
    """Its caller was killed, and would have written its end down."""
    with world() as here:
        for _ in range(3):
            dies_after(here, 600, order())
            assert swept(here, config, "--terminate") == 0
            assert here.spent() <= here.run(order().run).book.read().cost < here.spent() + 0.5
        assert len(here.rented) == 3


def test_a_machine_past_its_deadline_is_overdue(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One whose timer was never set: the sweep is what ends it."""
    with world() as here:
        dies_after(here, 600, order())
        here.rented[0].timer = 1e9
        here.sleep(4 * 3600)
        assert swept(here, config, "--terminate", "--overdue") == 0
        assert ", overdue" in capsys.readouterr().out


def test_machines_of_others_are_not_seen(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with world(runs="s3://foundry-test/others") as here:
        dies_after(here, 600, order())
        assert swept(here, config, "--terminate") == 0
        assert capsys.readouterr().out.count("nothing is left") == 2
        (machine,) = here.alive()
        here.take(machine)


def test_an_open_spot_request_is_cancelled(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with world() as here:
        ec2 = boto3.client("ec2", region_name="us-west-2")
        image = ec2.describe_images(Owners=["amazon"])["Images"][0]["ImageId"]
        asked = ec2.request_spot_instances(SpotPrice="0.1", LaunchSpecification={"ImageId": image})
        request = asked["SpotInstanceRequests"][0]["SpotInstanceRequestId"]
        ec2.create_tags(Resources=[request], Tags=[{"Key": RUNS, "Value": here.section.runs}])
        made = ec2.describe_spot_instance_requests()["SpotInstanceRequests"][0]
        assert swept(here, config, "--terminate") == 0
        said = capsys.readouterr().out
        if made["State"] == "open":
            assert f"us-west-2 {request}: a spot request that is open" in said
            assert "us-west-2: terminated 0, cancelled 1" in said
        # moto fulfils a request at once, with a machine that has no tags.
        ec2.terminate_instances(InstanceIds=[made["InstanceId"]])


def test_a_region_that_does_not_answer_is_no_clean_region(config: Path) -> None:
    with world() as here:
        here.faults["DescribeInstances"] = lambda _: "ConnectionClosed"
        with pytest.raises(RentFailed, match="us-east-1, us-west-2: AWS does not answer"):
            swept(here, config)


def test_who_may_not_look_is_told(config: Path) -> None:
    with world() as here:
        here.faults["DescribeInstances"] = lambda _: "UnauthorizedOperation"
        with pytest.raises(BadInput, match=r"AWS refuses a list of the machines in us-east-1 \(UnauthorizedOperation"):
            swept(here, config)


def test_a_configuration_without_the_section_is_bad_input() -> None:
    with pytest.raises(BadInput, match=r"smoke\.yaml: inf2 is missing; accepted: a section"):
        main(["config/smoke.yaml"])


def test_a_reader_that_has_gone_keeps_no_machine_alive(config: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with world() as here:
        dies_after(here, 600, order())
        read, write = os.pipe()
        os.close(read)
        with os.fdopen(write, "w") as gone:
            monkeypatch.setattr(sys, "stdout", gone)
            assert swept(here, config, "--terminate") == 0
        assert here.alive() == []


def test_a_region_that_refuses_does_not_keep_the_others(config: Path) -> None:
    with world() as here:
        here.faults["RunInstances"] = lambda told: (
            "InsufficientInstanceCapacity" if told["Placement"]["AvailabilityZone"].startswith("us-east-1") else None
        )
        dies_after(here, 600, order())
        refusals = iter(["AuthFailure"])
        here.faults["DescribeInstances"] = lambda _: next(refusals, None)
        with pytest.raises(BadInput, match=r"^AWS refuses the end of the machines in us-east-1 \(AuthFailure"):
            swept(here, config, "--terminate")
        assert here.alive() == []


def test_a_machine_that_may_not_be_terminated_does_not_keep_the_others(config: Path) -> None:
    with world() as here:
        dies_after(here, 600, order())
        dies_after(here, 600, order(image=f"registry.example/foundry@sha256:{'1' * 64}"))
        kept = min(here.alive(), key=lambda one: one.id)
        here.faults["TerminateInstances"] = lambda told: (
            "OperationNotPermitted" if told["body"]["InstanceId.1"] == kept.id else None
        )
        with pytest.raises(BadInput, match=r"the end of the machines in us-east-1 \(OperationNotPermitted"):
            swept(here, config, "--terminate")
        assert here.alive() == [kept]
        here.take(kept)

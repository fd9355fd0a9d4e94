"""AWS in this process, with time that passes only while somebody sleeps, machines that work, and a bill.

moto keeps the instances and the bucket. What it cannot do is done by botocore's own events: an answer is refused or
lost before or after moto sees the request. The bill is kept here, from what was really asked of RunInstances, and knows
nothing of the record that the subject keeps.
"""

from __future__ import annotations

import re
from base64 import b64decode
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import formatdate
from functools import cache
from types import SimpleNamespace
from typing import Any

import boto3
from botocore.exceptions import ConnectionClosedError
from moto import mock_aws
from moto.core.models import DEFAULT_ACCOUNT_ID
from moto.ec2.models import ec2_backends
from moto.ec2.models.instances import StateReason

from config.cloud import Inf2
from recipes.fit.instances import INSTANCES
from validate.inf2.asking import Asking
from validate.inf2.clients import Clients
from validate.inf2.clock import Clock
from validate.inf2.rent import rent
from validate.inf2.run import Run, run_of

REGIONS = ("us-east-1", "us-west-2")
BUCKET = "foundry-test"
START = 1_800_000_000.0
XLARGE = INSTANCES[0]
DISK_USD = 0.08 / 730
LOST = "lost"
"""A fault: the request arrives, the answer does not."""

Fault = Callable[[dict[str, Any]], str | None]
"""What becomes of a request, told from its parameters: an error code, LOST, or None for nothing out of the ordinary."""


@dataclass
class Rented:
    """One machine as AWS bills it; `work` are the moments at which it does something, in seconds after its start."""

    id: str
    region: str
    zone: str
    market: str
    start: float
    usd: float
    timer: float
    attempt: int
    address: str
    asked: dict[str, Any]
    work: list[tuple[float, Callable[[Rented], None]]] = field(default_factory=list)
    end: float | None = None


def cloud(**changes: Any) -> Inf2:
    """A section `inf2`, with two regions."""
    section: dict[str, Any] = {
        "runs": f"s3://{BUCKET}/runs",
        "image": f"registry.example/foundry@sha256:{'0' * 64}",
        "profile": "foundry",
        "regions": {name: {} for name in REGIONS},
        "base_image": "/foundry/base",
    }
    return Inf2.model_validate(section | changes)


class World:
    """Two regions, a bucket, and what happens in them."""

    def __init__(self, section: Inf2) -> None:
        self.section = section
        self.now = START
        self.rented: list[Rented] = []
        self.faults: dict[str, Fault] = {}
        self.program: Callable[[Rented], list[tuple[float, Callable[[Rented], None]]]] = lambda _: []
        self.prices: dict[str, float] = {}
        self.asked: list[dict[str, Any]] = []
        self.said: list[str] = []
        self.unseen = 0.0  # seconds in which EC2 does not know of a machine yet
        self.on_sleep: Callable[[float], None] = lambda _: None
        self._quiet = False
        ground = _ground()
        ground.clear(self)
        self.clients, self.s3 = ground.clients, ground.s3

    @property
    def clock(self) -> Clock:
        """The clock of this world."""
        return Clock(now=lambda: self.now, sleep=self.sleep, jitter=lambda: 0.5)

    def run(self, run: str = "a" * 64) -> Run:
        """A run as a new process would have it."""
        return run_of(run, "demo/tiny", self.section, self.clients, self.clock, self.said.append)

    def rent(self, order: Any, run: Run | None = None) -> Any:
        """Rent for the order, as the stage does."""
        run = run or self.run(order.run)
        return rent(run, Asking(run, self.section, XLARGE), order, poll=60.0)

    def sleep(self, seconds: float) -> None:
        """Let time pass: machines work, and end by their own timer."""
        until = self.now + seconds
        while due := min(self._due(until), default=None, key=lambda one: one[0]):
            self.now = max(self.now, due[0])
            due[1]()
        self.now = until
        self.on_sleep(seconds)

    def alive(self) -> list[Rented]:
        """The machines that are running, as far as the bill goes; it agrees with moto."""
        states = {
            instance.id: instance._state.name
            for region in REGIONS
            for reservation in ec2_backends[DEFAULT_ACCOUNT_ID][region].all_reservations()
            for instance in reservation.instances
        }
        alive = [one for one in self.rented if one.end is None]
        assert sorted(one.id for one in alive) == sorted(id_ for id_, state in states.items() if state != "terminated")
        return alive

    def spent(self) -> float:
        """US dollars of all machines up to now."""
        return sum(one.usd * ((one.end or self.now) - one.start) / 3600 for one in self.rented)

    def take(self, machine: Rented, code: str = "Server.SpotInstanceTermination") -> None:
        """AWS ends a machine, or it does so itself."""
        instance = ec2_backends[DEFAULT_ACCOUNT_ID][machine.region].get_instance(machine.id)
        instance.terminate()
        instance.state_reason = StateReason(code, code)
        machine.end = self.now

    def leave(self, machine: Rented, name: str, data: bytes) -> None:
        """A machine writes a file into the folder of its run."""
        with self.quietly():
            self.s3.put_object(Bucket=BUCKET, Key=f"{machine.address}/{name}", Body=data)

    def files(self) -> dict[str, bytes]:
        """Everything in the bucket."""
        listed = self.s3.list_objects_v2(Bucket=BUCKET).get("Contents", ())
        return {one["Key"]: self.s3.get_object(Bucket=BUCKET, Key=one["Key"])["Body"].read() for one in listed}

    @contextmanager
    def quietly(self) -> Iterator[None]:
        """Without faults: what machines do is not what is tested."""
        before, self._quiet = self._quiet, True
        yield
        self._quiet = before

    def _due(self, until: float) -> Iterator[tuple[float, Callable[[], None]]]:
        for one in self.rented:
            if one.end is not None:
                continue
            if one.work and one.start + one.work[0][0] <= until:
                yield one.start + one.work[0][0], lambda one=one: one.work.pop(0)[1](one)  # type: ignore[misc]
            if one.start + one.timer <= until:
                yield one.start + one.timer, lambda one=one: self.take(one, "Client.InstanceInitiatedShutdown")  # type: ignore[misc]

    def note(self, params: dict[str, Any], **_: Any) -> None:
        """A request for a machine, as the subject gave it."""
        self.asked.append(dict(params))

    def _fault(self, model: Any, context: dict[str, Any] | None, params: dict[str, Any]) -> str | None:
        told = str(params.get("body", ""))
        if model.name in ("DescribeInstances", "TerminateInstances") and any(one.id in told for one in self._young()):
            return "InvalidInstanceID.NotFound"
        fault = self.faults.get(model.name)
        return fault(params) if fault and not self._quiet else None

    def _young(self) -> list[Rented]:
        return [one for one in self.rented if self.now - one.start < self.unseen]

    def before(self, model: Any, params: dict[str, Any], context: dict[str, Any], **_: Any) -> Any:
        """What becomes of a request that is about to be sent."""
        told = self.asked[-1] if model.name == "RunInstances" else params
        fault = self._fault(model, context, told)
        context["fault"] = fault
        if fault in (None, LOST):
            return None
        if fault == "ConnectionClosed":
            raise ConnectionClosedError(endpoint_url="https://aws.test")
        status = 500 if fault in ("InternalError", "ServiceUnavailable") else 400
        parsed = {
            "Error": {"Code": fault, "Message": "as the test wants it"},
            "ResponseMetadata": {"HTTPStatusCode": status},
        }
        return SimpleNamespace(status_code=status, headers={}), parsed

    def after(self, model: Any, parsed: dict[str, Any], context: dict[str, Any], http_response: Any, **_: Any) -> None:
        """The bill, and answers that are lost."""
        if http_response.status_code >= 300:
            return
        if model.name == "DescribeSpotPriceHistory":
            for one in parsed["SpotPriceHistory"]:
                one["SpotPrice"] = str(self.prices.get(one["AvailabilityZone"], 0.35))
        if model.name == "DescribeInstances":
            self._date(parsed)
            young = {one.id for one in self._young()}
            for one in parsed["Reservations"]:
                one["Instances"] = [each for each in one["Instances"] if each["InstanceId"] not in young]
        if model.name == "RunInstances":
            self._bill(parsed["Instances"][0])
        if model.name == "TerminateInstances":
            gone = {one["InstanceId"] for one in parsed["TerminatingInstances"]}
            for one in self.rented:
                if one.id in gone and one.end is None:
                    one.end = self.now
        if context.get("fault") == LOST:
            raise ConnectionClosedError(endpoint_url="https://aws.test")

    def _date(self, parsed: dict[str, Any]) -> None:
        """The time of this world, in an answer that moto has given its own."""
        parsed["ResponseMetadata"]["HTTPHeaders"]["date"] = formatdate(self.now, usegmt=True)
        starts = {one.id: one.start for one in self.rented}
        for found in (one for reservation in parsed["Reservations"] for one in reservation["Instances"]):
            found["LaunchTime"] = datetime.fromtimestamp(starts.get(found["InstanceId"], self.now), UTC)

    def _bill(self, instance: dict[str, Any]) -> None:
        asked = self.asked[-1]
        told = dict(re.findall(r"^([A-Z]+)=(.+)$", b64decode(asked["UserData"]).decode(), re.MULTILINE))
        spot = asked.get("InstanceMarketOptions")
        price = float(spot["SpotOptions"]["MaxPrice"]) if spot else XLARGE.usd * self.section.price_margin
        zone = asked["Placement"]["AvailabilityZone"]
        machine = Rented(
            id=instance["InstanceId"],
            region=zone[:-1],
            zone=zone,
            market="spot" if spot else "on-demand",
            start=self.now,
            usd=price + DISK_USD * self.section.price_margin * asked["BlockDeviceMappings"][0]["Ebs"]["VolumeSize"],
            timer=60.0 * int(told["MINUTES"]) + 120,  # two minutes to boot
            attempt=int(re.findall(r"logs/(\d+)", told["LOG"])[0]),
            address=told["JOB"].removeprefix(f"s3://{BUCKET}/").removesuffix("/job.json"),
            asked=asked,
        )
        machine.work = self.program(machine)
        self.rented.append(machine)


class Ground:
    """What takes seconds to make and is the same for every world: clients, images, a bucket."""

    def __init__(self) -> None:
        self.clients = Clients()
        self.world: World | None = None
        events = self.clients._session.events
        events.register("before-parameter-build.ec2.RunInstances", lambda **told: self._now().note(**told))
        events.register("before-call", lambda **told: self._now().before(**told))
        events.register("after-call", lambda **told: self._now().after(**told))
        self.s3 = boto3.client("s3", region_name="us-east-1")
        self.s3.create_bucket(Bucket=BUCKET)
        boto3.client("iam").create_instance_profile(InstanceProfileName="foundry")
        for region in REGIONS:
            image = boto3.client("ec2", region_name=region).describe_images(Owners=["amazon"])["Images"][0]["ImageId"]
            boto3.client("ssm", region_name=region).put_parameter(Name="/foundry/base", Value=image, Type="String")

    def clear(self, world: World) -> None:
        """Make room for a world."""
        self.world = world
        for region in REGIONS:
            ec2_backends[DEFAULT_ACCOUNT_ID][region].reservations.clear()
        for one in self.s3.list_objects_v2(Bucket=BUCKET).get("Contents", ()):
            self.s3.delete_object(Bucket=BUCKET, Key=one["Key"])

    def _now(self) -> World:
        assert self.world
        return self.world


_ground = cache(Ground)


@contextmanager
def world(**changes: Any) -> Iterator[World]:
    """A world of its own; at its end nothing may run."""
    mock = mock_aws()
    mock.start(reset=False)
    try:
        made = World(cloud(**changes))
        yield made
        assert made.alive() == []
    finally:
        mock.stop(remove_data=False)

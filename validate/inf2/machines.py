"""Machines as EC2 tells of them: found by their tags, looked at, terminated."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any

from botocore.exceptions import ClientError

from validate.inf2.refusals import AWS_ERRORS, code_of

if TYPE_CHECKING:
    from types_boto3_ec2.client import EC2Client
    from types_boto3_ec2.type_defs import FilterTypeDef

    from validate.inf2.clients import Clients

RUNS = "neff-foundry:runs"
RUN = "neff-foundry:run"
ATTEMPT = "neff-foundry:attempt"
DEADLINE = "neff-foundry:deadline"
WHO = "neff-foundry:who"

ALIVE = ("pending", "running", "stopping", "stopped")
# Codes of StateReason with which a machine was taken away, by AWS or by whoever may terminate it, such as another
# caller of the same run who was interrupted. Any other end was the machine's own.
_TAKEN = (
    "Server.SpotInstanceTermination",
    "Server.SpotInstanceShutdown",
    "Server.InsufficientInstanceCapacity",
    "Server.InternalError",
    "Server.ScheduledStop",
    "Client.UserInitiatedShutdown",
)


@dataclass(frozen=True)
class Machine:
    """One machine; `reason` is the code with which it ended, empty while it lives; `age` in seconds, by AWS's clock."""

    region: str
    id: str
    state: str
    reason: str
    tags: dict[str, str]
    kind: str = ""
    age: float | None = None

    @property
    def works(self) -> bool:
        """Whether it runs, or is about to; one that was stopped only costs."""
        return self.state in ("pending", "running")

    @property
    def taken(self) -> bool:
        """Whether it was taken away, and did not end by itself."""
        return self.reason in _TAKEN

    @property
    def attempt(self) -> int:
        """The number of the attempt it was asked for in; 0 when it does not tell."""
        text = self.tags.get(ATTEMPT, "")
        return int(text) if text.isdecimal() else 0


class Machines:
    """All machines of a place for runs, or of one run, in any region."""

    def __init__(self, clients: Clients, runs: str, run: str | None = None) -> None:
        self._clients = clients
        self._filters: list[FilterTypeDef] = [{"Name": f"tag:{RUNS}", "Values": [runs]}]
        if run:
            self._filters.append({"Name": f"tag:{RUN}", "Values": [run]})

    def alive(self, region: str) -> list[Machine]:
        """Those that may still cost something."""
        states: FilterTypeDef = {"Name": "instance-state-name", "Values": list(ALIVE)}
        return list(_described(self._clients.ec2(region), region, Filters=[*self._filters, states]))

    def look(self, region: str, instance: str) -> Machine | None:
        """One machine, however it is; None when EC2 does not know it (any more, or yet)."""
        try:
            return next(_described(self._clients.ec2(region), region, InstanceIds=[instance]), None)
        except ClientError as error:
            if code_of(error).startswith("InvalidInstanceID"):
                return None
            raise

    def terminate(self, region: str, instances: Sequence[str]) -> None:
        """Terminate them; one that is gone already is no error, and one that cannot be keeps none of the others."""
        refused: list[Exception] = []
        for instance in instances:
            try:
                self._clients.ec2(region).terminate_instances(InstanceIds=[instance])
            except AWS_ERRORS as error:
                if not (isinstance(error, ClientError) and code_of(error).startswith("InvalidInstanceID")):
                    refused.append(error)
        if refused:
            raise refused[0]

    def cancel(self, region: str, requests: Sequence[str]) -> None:
        """Cancel spot requests."""
        if requests:
            self._clients.ec2(region).cancel_spot_instance_requests(SpotInstanceRequestIds=list(requests))

    def requests(self, region: str) -> list[str]:
        """Ids of the spot requests that may still become a machine."""
        states: FilterTypeDef = {"Name": "state", "Values": ["open"]}
        pages = self._clients.ec2(region).get_paginator("describe_spot_instance_requests")
        found = pages.paginate(Filters=[*self._filters, states])
        return [one["SpotInstanceRequestId"] for page in found for one in page["SpotInstanceRequests"]]


def _described(ec2: EC2Client, region: str, **which: Any) -> Iterator[Machine]:
    for page in ec2.get_paginator("describe_instances").paginate(**which):
        date = page["ResponseMetadata"]["HTTPHeaders"].get("date")
        for reservation in page["Reservations"]:
            for found in reservation["Instances"]:
                state, launched = found["State"]["Name"], found.get("LaunchTime")
                yield Machine(
                    region=region,
                    id=found["InstanceId"],
                    state=state,
                    reason=(found.get("StateReason") or {}).get("Code", "") if state not in ALIVE else "",
                    tags={tag["Key"]: tag["Value"] for tag in found.get("Tags", ())},
                    kind=found.get("InstanceType", ""),
                    age=(parsedate_to_datetime(date) - launched).total_seconds() if date and launched else None,
                )

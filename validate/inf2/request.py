"""The request for one machine, as RunInstances takes it."""

from __future__ import annotations

import getpass
import re
import socket
from datetime import UTC, datetime
from typing import Any

from config.cloud import Inf2
from ledger.digest import digest_json
from validate.inf2.folder import Folder
from validate.inf2.machines import ATTEMPT, DEADLINE, RUN, RUNS, WHO
from validate.inf2.money import Terms
from validate.inf2.record import Attempt
from validate.inf2.userdata import userdata

_TAGGED = ("instance", "volume", "network-interface")
_LONGEST_TAG = 256


def request(
    cloud: Inf2, folder: Folder, run: str, name: str, kind: str, attempt: Attempt, terms: Terms, image: tuple[str, str]
) -> dict[str, Any]:
    """The arguments of RunInstances for an attempt; `image` is that of `Map.image`.

    The token is the attempt's own, so that a request that is sent again after a lost answer starts no second machine.
    """
    where = cloud.regions[attempt.region]
    asked: dict[str, Any] = {
        "ClientToken": digest_json([folder.address, attempt.number, attempt.by]),
        "MinCount": 1,
        "MaxCount": 1,
        "ImageId": image[0],
        "InstanceType": kind,
        "Placement": {"AvailabilityZone": attempt.zone},
        "IamInstanceProfile": {"Name": cloud.profile},
        "InstanceInitiatedShutdownBehavior": "terminate",
        "MetadataOptions": {"HttpTokens": "required", "HttpEndpoint": "enabled", "HttpPutResponseHopLimit": 1},
        "BlockDeviceMappings": [
            {
                "DeviceName": image[1],
                "Ebs": {"VolumeSize": cloud.disk_gb, "VolumeType": "gp3", "DeleteOnTermination": True},
            }
        ],
        "UserData": userdata(cloud, folder, attempt.region, attempt.number, terms.minutes),
    }
    tagged = list(_TAGGED)
    if terms.market == "spot":
        asked["InstanceMarketOptions"] = {
            "MarketType": "spot",
            "SpotOptions": {
                "MaxPrice": f"{terms.price:.4f}",
                "SpotInstanceType": "one-time",
                "InstanceInterruptionBehavior": "terminate",
            },
        }
        tagged.append("spot-instances-request")
    if subnet := where.subnets.get(attempt.zone):
        asked["SubnetId"] = subnet
    if where.security_group:
        asked["SecurityGroupIds"] = [where.security_group]
    tags = _tags(cloud, run, name, attempt)
    asked["TagSpecifications"] = [{"ResourceType": one, "Tags": tags} for one in tagged]
    return asked


def _tags(cloud: Inf2, run: str, name: str, attempt: Attempt) -> list[dict[str, str]]:
    values = {
        "Name": f"neff-foundry {name}"[:_LONGEST_TAG],
        RUNS: cloud.runs,
        RUN: run,
        ATTEMPT: str(attempt.number),
        DEADLINE: datetime.fromtimestamp(attempt.over, UTC).isoformat(timespec="seconds"),
        WHO: _who()[:_LONGEST_TAG],
    }
    # The others are looked for, and so never cut: the section bounds `runs`.
    return [{"Key": key, "Value": value} for key, value in values.items()]


def _who() -> str:
    """Whom to ask about a machine."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):
        user = "unknown"
    return re.sub(r"[^\w+=.@:/-]", "-", f"{user}@{socket.gethostname()}")

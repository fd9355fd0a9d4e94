"""Clients of AWS: one for each service and region, with bounded time-outs and retries.

Credentials, endpoint and so on come from boto3's own sources. The store has a client of its own (ledger/store).
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from types_boto3_ec2.client import EC2Client
    from types_boto3_s3.client import S3Client
    from types_boto3_ssm.client import SSMClient

CONNECT, READ, TRIES = 10, 60, 4


class Clients:
    """Made when they are first asked for, as boto3 takes a third of a second to import."""

    def __init__(self) -> None:
        import boto3
        from botocore.config import Config

        self._session = boto3.session.Session()
        self._config = Config(
            connect_timeout=CONNECT, read_timeout=READ, retries={"mode": "standard", "total_max_attempts": TRIES}
        )
        self.ec2 = cache(self._ec2)
        self.ssm = cache(self._ssm)
        self.s3 = cache(self._s3)

    def _ec2(self, region: str) -> EC2Client:
        return self._session.client("ec2", region_name=region, config=self._config)

    def _ssm(self, region: str) -> SSMClient:
        return self._session.client("ssm", region_name=region, config=self._config)

    def _s3(self) -> S3Client:
        return self._session.client("s3", config=self._config)

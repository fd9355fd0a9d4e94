"""Clients of AWS: one for each service and region, with bounded time-outs and retries.

Credentials, endpoint and so on come from boto3's own sources. The store has a client of its own (ledger/store).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING

from ledger.errors import BadInput

if TYPE_CHECKING:
    from types_boto3_ec2.client import EC2Client
    from types_boto3_s3.client import S3Client
    from types_boto3_ssm.client import SSMClient

# Seconds, and how often: of EC2 less in all than run.DOUBT, after which a request is taken for one that never came.
CONNECT, READ, TRIES = 10, 60, 4
EC2_CONNECT, EC2_READ, EC2_TRIES = 5, 35, 2


class Clients:
    """Made when they are first asked for, as boto3 takes a third of a second to import."""

    def __init__(self) -> None:
        import boto3
        from botocore.config import Config

        with _in_a_sentence():
            self._session = boto3.session.Session()
        self._config = Config(
            connect_timeout=CONNECT, read_timeout=READ, retries={"mode": "standard", "total_max_attempts": TRIES}
        )
        self._of_ec2 = Config(
            connect_timeout=EC2_CONNECT,
            read_timeout=EC2_READ,
            retries={"mode": "standard", "total_max_attempts": EC2_TRIES},
        )
        self.ec2 = cache(self._ec2)
        self.ssm = cache(self._ssm)
        self.s3 = cache(self._s3)

    def _ec2(self, region: str) -> EC2Client:
        with _in_a_sentence():
            return self._session.client("ec2", region_name=region, config=self._of_ec2)

    def _ssm(self, region: str) -> SSMClient:
        with _in_a_sentence():
            return self._session.client("ssm", region_name=region, config=self._config)

    def _s3(self) -> S3Client:
        with _in_a_sentence():
            return self._session.client("s3", config=self._config)


@contextmanager
def _in_a_sentence() -> Iterator[None]:
    """Settings that make no client, such as a profile that is not there, are BadInput."""
    from botocore.exceptions import BotoCoreError

    try:
        yield
    except (BotoCoreError, ValueError) as error:
        raise BadInput(
            f"settings of AWS: {' '.join(str(error).split())}; accepted: AWS_* variables and a profile that boto3 takes"
        ) from None

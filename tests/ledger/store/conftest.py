"""Machines that share a bucket, the bare client that tells what is really in it, and a line to try commands on."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import boto3
import pytest

from ledger.store.remote import Bucket
from ledger.store.shared import SharedStore
from tests.ledger.store.line import Line

if TYPE_CHECKING:
    from types_boto3_s3.client import S3Client

PREFIX = "foundry"
Machine = Callable[[str], SharedStore]


@pytest.fixture
def machine(bucket: str, tmp_path: Path) -> Machine:
    """A machine by name, each with a folder of its own."""
    return lambda name: SharedStore(tmp_path / name, Bucket(bucket, PREFIX))


class Raw:
    """The bucket as any other client sees it."""

    def __init__(self, client: S3Client, bucket: str) -> None:
        self.client, self.bucket = client, bucket

    def names(self, under: str = "") -> list[str]:
        answer = self.client.list_objects_v2(Bucket=self.bucket, Prefix=f"{PREFIX}/{under}")
        return [one["Key"].removeprefix(f"{PREFIX}/") for one in answer.get("Contents", [])]

    def get(self, name: str) -> bytes:
        return self.client.get_object(Bucket=self.bucket, Key=f"{PREFIX}/{name}")["Body"].read()

    def put(self, name: str, data: bytes) -> None:
        self.client.put_object(Bucket=self.bucket, Key=f"{PREFIX}/{name}", Body=data)

    def drop(self, name: str) -> None:
        self.client.delete_object(Bucket=self.bucket, Key=f"{PREFIX}/{name}")


@pytest.fixture
def raw(bucket: str) -> Iterator[Raw]:
    """Reads and damages what is in the bucket."""
    client = boto3.client("s3")
    yield Raw(client, bucket)
    client.close()


@pytest.fixture
def line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Line:
    return Line(str(tmp_path / "store"), tmp_path, monkeypatch)


@pytest.fixture(params=["folder", "bucket"])
def either(request: pytest.FixtureRequest, line: Line) -> Line:
    """With a store in a folder, or in a bucket."""
    if request.param == "bucket":
        line.store = f"s3://{request.getfixturevalue('bucket')}/foundry"
    return line

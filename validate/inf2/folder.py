"""A folder of small files on S3: orders, records, receipts and logs of runs. The store is another thing."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from botocore.exceptions import ClientError

from validate.inf2.refusals import code_of

if TYPE_CHECKING:
    from types_boto3_s3.client import S3Client

_MISSING = {"NoSuchKey", "404"}
_TAKEN = {"PreconditionFailed", "ConditionalRequestConflict", "412", "409"}


class Folder:
    """Files below an address s3://BUCKET/PREFIX; errors of AWS come through."""

    def __init__(self, client: S3Client, address: str) -> None:
        self.address = address.rstrip("/")
        self._client = client
        self._bucket, _, self._prefix = self.address.removeprefix("s3://").partition("/")

    def below(self, name: str) -> Folder:
        """A folder in this one."""
        return Folder(self._client, f"{self.address}/{name}")

    def above(self) -> Folder:
        """The folder that this one is in."""
        return Folder(self._client, self.address.rpartition("/")[0])

    def names(self) -> dict[str, int]:
        """Size of each file by its name in this folder."""
        return dict(self._listed())

    def read(self, name: str, start: int = 0) -> bytes | None:
        """The file from byte `start` on; None when there is none."""
        return self.read_tagged(name, start)[0]

    def read_tagged(self, name: str, start: int = 0) -> tuple[bytes | None, str | None]:
        """The file and the tag by which `write_over` knows it again."""
        try:
            found = self._client.get_object(Bucket=self._bucket, Key=self._key(name), Range=f"bytes={start}-")
        except ClientError as error:
            if code_of(error) in _MISSING:
                return None, None
            if code_of(error) == "InvalidRange":
                # A range of an empty file, or beyond its end.
                return b"", None
            raise
        return found["Body"].read(), found["ETag"]

    def write(self, name: str, data: bytes) -> None:
        """Write the file, over one that may be there."""
        self._client.put_object(Bucket=self._bucket, Key=self._key(name), Body=data)

    def write_over(self, name: str, data: bytes, tag: str | None) -> str | None:
        """Write the file if it still is the one with `tag` (None: if there is none); its new tag, or None if not."""
        key = self._key(name)
        try:
            if tag is None:
                done = self._client.put_object(Bucket=self._bucket, Key=key, Body=data, IfNoneMatch="*")
            else:
                done = self._client.put_object(Bucket=self._bucket, Key=key, Body=data, IfMatch=tag)
        except ClientError as error:
            if code_of(error) in _TAKEN | _MISSING:
                return None
            raise
        return done["ETag"]

    def remove(self, name: str) -> None:
        """Remove the file, if it is there."""
        self._client.delete_object(Bucket=self._bucket, Key=self._key(name))

    def _key(self, name: str) -> str:
        return f"{self._prefix}/{name}"

    def _listed(self) -> Iterator[tuple[str, int]]:
        prefix = f"{self._prefix}/"
        for page in self._client.get_paginator("list_objects_v2").paginate(Bucket=self._bucket, Prefix=prefix):
            for entry in page.get("Contents", ()):
                yield entry["Key"].removeprefix(prefix), entry["Size"]

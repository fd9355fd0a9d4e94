"""A bucket of S3 under a prefix: the one file of the store that knows boto3.

Every write is conditional: a name is taken by who writes it first (If-None-Match), or replaced only while it is what
was read (If-Match), so two builders never spoil each other's work. S3 shows an object when its last byte has arrived;
what a killed upload leaves is invisible, and `collect` aborts it. ETags only tell one version from another: what
content is right, its name says. Large files go and come in parts, several at a time, through boto3's transfer manager,
which takes little memory and aborts what fails.

Endpoint, region, credentials and proxies come from where boto3 looks for them: AWS_PROFILE, AWS_ENDPOINT_URL_S3, ...
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from email.utils import parsedate_to_datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import boto3
from boto3.s3.transfer import TransferConfig, create_transfer_manager
from botocore import exceptions as told
from botocore.config import Config
from s3transfer.exceptions import RetriesExceededError

from ledger.errors import BadInput, FoundryError
from ledger.store.holding import Entry

if TYPE_CHECKING:
    from types_boto3_s3.client import S3Client
    from types_boto3_s3.type_defs import ListObjectsV2OutputTypeDef, ObjectIdentifierTypeDef

T = TypeVar("T")

# Above this a file goes in parts of this size, or of more where there would be over 10,000 of them.
PART = 64 << 20
CONNECTIONS = 32
_CLIENT = Config(
    retries={"mode": "standard", "total_max_attempts": 5},
    connect_timeout=10,
    read_timeout=60,
    max_pool_connections=CONNECTIONS,
)
_WRITES = ("PutObject", "CompleteMultipartUpload")
_ABSENT = {"404", "NoSuchKey", "NoSuchUpload"}
# Somebody else was first, or writes at this moment.
_LOST = {"PreconditionFailed", "412", "ConditionalRequestConflict", "409"}
_REFUSED = {"403", "AccessDenied", "InvalidAccessKeyId", "SignatureDoesNotMatch", "ExpiredToken", "InvalidToken"}
_UNKNOWN = (
    told.NoCredentialsError,
    told.PartialCredentialsError,
    told.CredentialRetrievalError,
    told.TokenRetrievalError,
    told.ProfileNotFound,
    told.SSOError,
)
_CUT = (
    told.HTTPClientError,
    told.ConnectionError,
    told.IncompleteReadError,
    told.ResponseStreamingError,
    RetriesExceededError,
)
_BATCH = 1000  # names in one request to delete


class Head(NamedTuple):
    """Size of an object, and the tag of just this version of it."""

    bytes: int
    tag: str


class Version(NamedTuple):
    """Content, and the tag of just this version of it."""

    data: bytes
    tag: str


class Bucket:
    """What is under `prefix` in `bucket`. Every method raises FoundryError, in one sentence, when AWS fails it."""

    def __init__(self, bucket: str, prefix: str, *, part: int = PART) -> None:
        self._bucket, self._prefix = bucket, f"{prefix}/" if prefix else ""
        self.location = f"s3://{bucket}/{prefix}".rstrip("/")
        self._transfer = TransferConfig(
            multipart_threshold=part, multipart_chunksize=part, max_concurrency=8, preferred_transfer_client="classic"
        )
        with self._talking():
            self._client = self._connected()
            for operation in _WRITES:
                self._client.meta.events.register(f"before-parameter-build.s3.{operation}", _conditional)
            try:
                self._look()
            except told.ClientError as error:
                if _code(error) not in {"404", "NoSuchBucket"}:
                    raise
                raise BadInput(f"{self.location}: there is no bucket {bucket}; accepted: one that exists") from None

    def _connected(self) -> S3Client:
        try:
            return boto3.session.Session().client("s3", config=_CLIENT)
        except told.BotoCoreError:
            raise
        except ValueError as error:
            raise BadInput(
                f"{self.location}: {_flat(error)}; accepted: an endpoint https://HOST or http://HOST:PORT in "
                "AWS_ENDPOINT_URL_S3, AWS_ENDPOINT_URL or the profile"
            ) from None

    def now(self) -> float:
        """The bucket's own time, in seconds since 1970: the end of the second in which it answered."""
        with self._talking():
            answer = self._look()
        return parsedate_to_datetime(answer["ResponseMetadata"]["HTTPHeaders"]["date"]).timestamp() + 1

    def _look(self) -> ListObjectsV2OutputTypeDef:
        """Ask for one name: unlike HeadBucket, a role that may list under the prefix alone is let in."""
        return self._client.list_objects_v2(Bucket=self._bucket, Prefix=self._prefix, MaxKeys=1)

    def head(self, name: str) -> Head | None:
        """Size and tag of an object, None when there is none."""
        found = self._unless_absent(lambda: self._client.head_object(Bucket=self._bucket, Key=self._prefix + name))
        return Head(found["ContentLength"], found["ETag"]) if found else None

    def size(self, name: str) -> int | None:
        """Bytes of an object, None when there is none."""
        found = self.head(name)
        return found.bytes if found else None

    def version(self, name: str) -> Version | None:
        """A small object with its tag, None when there is none."""

        def get() -> Version:
            answer = self._client.get_object(Bucket=self._bucket, Key=self._prefix + name)
            return Version(answer["Body"].read(), answer["ETag"])

        return self._unless_absent(get)

    def read(self, name: str) -> bytes | None:
        """A small object, None when there is none."""
        found = self.version(name)
        return found.data if found else None

    def fetch(self, name: str, path: Path) -> str | None:
        """Write an object to `path` and return its tag; None when there is none."""

        def download() -> str:
            with create_transfer_manager(self._client, self._transfer) as manager:
                future = manager.download(self._bucket, self._prefix + name, str(path))
                future.result()
                return str(future.meta.etag)

        return self._unless_absent(download)

    def put(self, name: str, data: bytes, *, over: str | None = None) -> bool:
        """Write under a name that is free, or `over` the version with that tag; False when it is not so (any more)."""
        condition: dict[str, Any] = {"IfMatch": over} if over else {}
        return self._won(
            lambda: self._client.put_object(
                Bucket=self._bucket, Key=self._prefix + name, Body=data, ChecksumAlgorithm="SHA256", **condition
            )
        )

    def put_file(self, name: str, path: Path) -> bool:
        """Write the file at `path` under a name that is free; False when it is not."""

        def upload() -> None:
            checks = {"ChecksumAlgorithm": "SHA256"}
            with create_transfer_manager(self._client, self._transfer) as manager:
                manager.upload(str(path), self._bucket, self._prefix + name, checks).result()

        return self._won(upload)

    def remove(self, name: str, tag: str) -> bool:
        """Remove an object if it is still the version with `tag`; False when it is another, or gone."""
        return self._won(lambda: self._client.delete_object(Bucket=self._bucket, Key=self._prefix + name, IfMatch=tag))

    def entries(self, under: str) -> Iterator[Entry]:
        """What has a name that begins with the folder `under`."""
        pages = self._client.get_paginator("list_objects_v2")
        with self._talking():
            for page in pages.paginate(Bucket=self._bucket, Prefix=f"{self._prefix}{under}/"):
                for one in page.get("Contents", []):
                    name = one["Key"].removeprefix(self._prefix)
                    yield Entry(name, one["Size"], one["LastModified"].timestamp())

    def discard(self, names: Iterable[str]) -> None:
        """Remove what is there of `names`."""
        keys = [self._prefix + name for name in names]
        with self._talking():
            for start in range(0, len(keys), _BATCH):
                batch: list[ObjectIdentifierTypeDef] = [{"Key": key} for key in keys[start : start + _BATCH]]
                answer = self._client.delete_objects(Bucket=self._bucket, Delete={"Objects": batch, "Quiet": True})
                for error in answer.get("Errors", []):
                    raise FoundryError(f"{self.location}: {error['Key']} stays, as AWS says {error['Code']}; run again")

    def uploads(self, before: float) -> list[tuple[str, str]]:
        """Name and id of the uploads in parts that were begun before a time and never ended."""
        pages = self._client.get_paginator("list_multipart_uploads")
        with self._talking():
            return [
                (one["Key"].removeprefix(self._prefix), one["UploadId"])
                # Other names of the bucket may be somebody else's.
                for page in pages.paginate(Bucket=self._bucket, Prefix=f"{self._prefix}objects/")
                for one in page.get("Uploads", [])
                if one["Initiated"].timestamp() < before
            ]

    def abort(self, uploads: Iterable[tuple[str, str]]) -> None:
        """Give up uploads, and free what they hold."""
        for name, upload in uploads:
            key = self._prefix + name
            self._unless_absent(
                partial(self._client.abort_multipart_upload, Bucket=self._bucket, Key=key, UploadId=upload)
            )

    def _unless_absent(self, call: Callable[[], T]) -> T | None:
        with self._talking():
            try:
                return call()
            except told.ClientError as error:
                if _code(error) not in _ABSENT:
                    raise
                return None

    def _won(self, call: Callable[[], object]) -> bool:
        with self._talking():
            try:
                call()
            except told.ClientError as error:
                if _code(error) not in _LOST | _ABSENT:
                    raise
                return False
            return True

    @contextmanager
    def _talking(self) -> Iterator[None]:
        """What boto3 raises, as one sentence."""
        try:
            yield
        except _UNKNOWN as error:
            raise BadInput(
                f"{self.location}: AWS credentials: {_flat(error)}; accepted: a profile (AWS_PROFILE), keys in the "
                "environment, or the role of this machine"
            ) from None
        except _CUT as error:
            reason = error.last_exception if isinstance(error, RetriesExceededError) else error
            raise FoundryError(
                f"{self.location}: the connection failed ({_flat(reason)}); what is recorded stays, run again"
            ) from None
        except told.ClientError as error:
            code = _code(error)
            if code in _REFUSED:
                raise BadInput(
                    f"{self.location}: AWS refuses {error.operation_name} ({code}); accepted: credentials that may "
                    "list, read, write and delete there"
                ) from None
            raise FoundryError(f"{self.location}: {_flat(error)}") from None
        except told.BotoCoreError as error:
            raise FoundryError(f"{self.location}: {_flat(error)}") from None


def _conditional(params: dict[str, Any], **_: Any) -> None:
    """A write must find its name free, unless it says otherwise."""
    if "IfMatch" not in params:
        params["IfNoneMatch"] = "*"


def _code(error: told.ClientError) -> str:
    return error.response.get("Error", {}).get("Code", "")


def _flat(error: BaseException) -> str:
    return " ".join(str(error).split()).rstrip(".")

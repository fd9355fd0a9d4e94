"""The bucket: conditional writes, parts, what is listed, and a sentence for whatever AWS says."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from botocore.awsrequest import AWSResponse
from botocore.compat import HTTPHeaders
from urllib3.exceptions import ProtocolError

from ledger.errors import BadInput, FoundryError
from ledger.store import open_store
from ledger.store.remote import Bucket
from tests.aws import Aws
from tests.ledger.store.conftest import Raw

PART = 5 << 20  # the least that S3 takes
LOST = "the connection failed ("


@pytest.fixture
def remote(bucket: str) -> Bucket:
    return Bucket(bucket, "foundry", part=PART)


@pytest.fixture
def waits(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Seconds that the client waits between its tries; here it does not really wait."""
    seconds: list[float] = []
    monkeypatch.setattr("botocore.endpoint.time", SimpleNamespace(sleep=seconds.append))
    return seconds


class Answers:
    """Answers that AWS gives to one operation from now on, in place of the server, until none is left."""

    def __init__(self, remote: Bucket, operation: str) -> None:
        self.left: list[AWSResponse] = []
        # The stubs say that a hook returns nothing; this one may answer.
        remote._client.meta.events.register(f"before-send.s3.{operation}", self.answer)  # type: ignore[arg-type]

    def refuse(self, status: int, code: str, times: int = 1) -> None:
        body = f"<Error><Code>{code}</Code><Message>In AWS's words.</Message></Error>".encode()
        for _ in range(times):
            raw = SimpleNamespace(stream=lambda *_, **__: iter([body]))
            self.left.append(AWSResponse("http://s3", status, HTTPHeaders(), raw))

    def cut(self, times: int) -> None:
        def read(*_: Any, **__: Any) -> bytes:
            raise ProtocolError("reset by peer")

        headers = HTTPHeaders.from_dict({"content-length": "100000", "etag": '"x"'})
        self.left += [AWSResponse("http://s3", 200, headers, SimpleNamespace(read=read)) for _ in range(times)]

    def answer(self, **_: Any) -> AWSResponse | None:
        return self.left.pop(0) if self.left else None


def test_a_name_is_taken_once(remote: Bucket, raw: Raw) -> None:
    assert remote.put("actions/one", b"first")
    assert not remote.put("actions/one", b"second")
    version = remote.version("actions/one")
    assert version is not None
    assert version.data == raw.get("actions/one") == b"first"
    assert remote.put("actions/one", b"second", over=version.tag)
    assert not remote.put("actions/one", b"third", over=version.tag)
    assert raw.get("actions/one") == b"second"
    assert not remote.put("actions/none", b"third", over=version.tag)
    assert raw.names() == ["actions/one"]


def test_only_the_version_that_was_seen_is_removed(remote: Bucket, raw: Raw) -> None:
    remote.put("actions/one", b"first")
    version = remote.version("actions/one")
    assert version is not None
    raw.put("actions/one", b"other")
    assert not remote.remove("actions/one", version.tag)
    assert raw.get("actions/one") == b"other"
    head = remote.head("actions/one")
    assert head is not None
    assert remote.remove("actions/one", head.tag)
    assert remote.head("actions/one") is None
    assert remote.version("actions/one") is None
    assert remote.size("actions/one") is None
    assert not remote.remove("actions/one", head.tag)


@pytest.mark.parametrize("size", [0, 1, PART - 1, PART, 2 * PART + 1])
def test_a_file_comes_back_as_it_went(remote: Bucket, tmp_path: Path, aws: Aws, size: int) -> None:
    data = os.urandom(size)
    (tmp_path / "there").write_bytes(data)
    assert remote.put_file("objects/one", tmp_path / "there")
    assert remote.size("objects/one") == size
    assert remote.fetch("objects/one", tmp_path / "back")
    assert (tmp_path / "back").read_bytes() == data
    parts = [path for method, path, _ in aws.requests() if method == "PUT" and "partNumber" in path]
    assert len(parts) == (0 if size < PART else -(-size // PART))
    before = len(aws.requests())
    assert not remote.put_file("objects/one", tmp_path / "there")
    if size >= PART:
        assert aws.requests()[before:][-1][0] == "DELETE", "the parts that lost are given up"
    assert remote.uploads(float("inf")) == []


def test_what_is_not_there_is_none(remote: Bucket, tmp_path: Path) -> None:
    assert remote.fetch("objects/none", tmp_path / "back") is None
    assert remote.read("objects/none") is None
    assert not (tmp_path / "back").exists()
    assert list(remote.entries("objects")) == []
    remote.discard(["objects/none"])
    remote.discard([])


def test_names_are_listed_and_removed_under_their_prefix(remote: Bucket, raw: Raw, bucket: str) -> None:
    names = {f"actions/{number:02}.json": bytes(number) for number in range(20)}
    for name, data in names.items():
        remote.put(name, data)
    raw.client.put_object(Bucket=bucket, Key="foundry-two/actions/x", Body=b"of another store")
    raw.client.put_object(Bucket=bucket, Key="foundry/actions-not/x", Body=b"of another folder")
    assert {entry.name: entry.bytes for entry in remote.entries("actions")} == {n: len(d) for n, d in names.items()}
    remote.discard(list(names))
    assert list(remote.entries("actions")) == []
    assert raw.client.list_objects_v2(Bucket=bucket)["KeyCount"] == 2


def test_an_upload_that_never_ended_is_invisible_until_it_is_aborted(remote: Bucket, raw: Raw, bucket: str) -> None:
    ids = {}
    for key in ("foundry/objects/one", "foundry/notes/three", "elsewhere/objects/two"):
        ids[key] = raw.client.create_multipart_upload(Bucket=bucket, Key=key)["UploadId"]
        raw.client.upload_part(Bucket=bucket, Key=key, UploadId=ids[key], PartNumber=1, Body=b"half")
    assert remote.size("objects/one") is None
    assert list(remote.entries("objects")) == []
    assert remote.uploads(0) == []
    assert remote.uploads(float("inf")) == [("objects/one", ids["foundry/objects/one"])]
    for _ in range(2):
        remote.abort([("objects/one", ids["foundry/objects/one"])])
    assert {one["Key"] for one in raw.client.list_multipart_uploads(Bucket=bucket)["Uploads"]} == {
        "foundry/notes/three",
        "elsewhere/objects/two",
    }


@pytest.mark.usefixtures("waits")
def test_an_upload_that_fails_leaves_no_parts(remote: Bucket, raw: Raw, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(bytes(2 * PART))
    Answers(remote, "UploadPart").refuse(403, "AccessDenied", times=99)
    with pytest.raises(BadInput, match=r"AWS refuses UploadPart \(AccessDenied\)"):
        remote.put_file("objects/one", tmp_path / "file")
    assert raw.names() == []
    assert remote.uploads(float("inf")) == []


def test_a_server_that_stumbles_is_asked_again(remote: Bucket, waits: list[float], raw: Raw) -> None:
    Answers(remote, "PutObject").refuse(503, "SlowDown", times=4)
    assert remote.put("actions/one", b"first")
    assert raw.get("actions/one") == b"first"
    assert len(waits) == 4


def test_a_write_whose_answer_was_lost_is_told_from_another_builders(remote: Bucket, raw: Raw) -> None:
    # The server has it, and says so to the second try.
    raw.put("actions/one", b"ours")
    assert not remote.put("actions/one", b"ours")
    assert remote.read("actions/one") == b"ours"


@pytest.mark.usefixtures("waits")
@pytest.mark.parametrize(
    ("status", "code", "sentence"),
    [
        (403, "AccessDenied", "AWS refuses GetObject (AccessDenied); accepted: credentials that may list, read, write"),
        (400, "ExpiredToken", "AWS refuses GetObject (ExpiredToken); accepted: "),
        (503, "SlowDown", "An error occurred (SlowDown) when calling the GetObject operation (reached max retries: 4)"),
        (501, "NotImplemented", "An error occurred (NotImplemented) when calling the GetObject operation"),
    ],
)
def test_a_refusal_is_one_sentence(remote: Bucket, status: int, code: str, sentence: str) -> None:
    Answers(remote, "GetObject").refuse(status, code, times=9)
    with pytest.raises(FoundryError) as caught:
        remote.read("actions/one")
    assert str(caught.value).startswith(f"{remote.location}: {sentence}")
    assert caught.value.exit_code == 2
    assert "\n" not in str(caught.value)


def test_a_bucket_that_is_not_there(aws: Aws, tmp_path: Path) -> None:
    assert aws.endpoint
    with pytest.raises(BadInput) as caught:
        open_store("s3://no-such-bucket/foundry", tmp_path)
    assert str(caught.value) == (
        "s3://no-such-bucket/foundry: there is no bucket no-such-bucket; accepted: one that exists"
    )


def test_no_credentials(bucket: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    with pytest.raises(BadInput) as caught:
        Bucket(bucket, "foundry")
    assert str(caught.value).startswith(f"s3://{bucket}/foundry: AWS credentials: Unable to locate credentials; ")
    monkeypatch.setenv("AWS_PROFILE", "nobody")
    with pytest.raises(BadInput, match=r"AWS credentials: The config profile \(nobody\) could not be found; accepted"):
        Bucket(bucket, "foundry")


@pytest.mark.parametrize("endpoint", ["rubbish", "http://[::1", "http://a b", "s3.amazonaws.com"])
def test_an_endpoint_that_is_none(bucket: str, endpoint: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", endpoint)
    with pytest.raises(BadInput) as caught:
        Bucket(bucket, "foundry")
    assert str(caught.value).startswith(f"s3://{bucket}/foundry: Invalid ")
    assert str(caught.value).endswith("http://HOST:PORT in AWS_ENDPOINT_URL_S3, AWS_ENDPOINT_URL or the profile")


@pytest.fixture
def deaf() -> Iterator[int]:
    """A port of this machine that nobody listens at, and nobody else gets."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        yield held.getsockname()[1]


def test_nobody_answers(bucket: str, deaf: int, waits: list[float], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{deaf}")
    with pytest.raises(FoundryError) as caught:
        Bucket(bucket, "foundry")
    assert str(caught.value).startswith(f"s3://{bucket}/foundry: {LOST}Could not connect to the endpoint URL")
    assert str(caught.value).endswith("; what is recorded stays, run again")
    assert len(waits) == 4


def test_a_connection_that_ends_in_the_middle(remote: Bucket, tmp_path: Path) -> None:
    (tmp_path / "there").write_bytes(bytes(100_000))
    remote.put_file("objects/one", tmp_path / "there")
    answers = Answers(remote, "GetObject")
    answers.cut(times=2)
    assert remote.fetch("objects/one", tmp_path / "back")
    assert (tmp_path / "back").read_bytes() == bytes(100_000)
    (tmp_path / "back").unlink()
    answers.cut(times=99)
    with pytest.raises(FoundryError, match=rf"{LOST[:-1]}\(.*reset by peer"):
        remote.fetch("objects/one", tmp_path / "back")
    with pytest.raises(FoundryError, match=rf"{LOST[:-1]}\(.*reset by peer"):
        remote.read("objects/one")
    assert [path.name for path in tmp_path.iterdir()] == ["there"]

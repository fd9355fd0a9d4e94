"""AWS on this machine: moto as a process of its own, and what a client needs to talk to it.

    aws      endpoint, environment (set for this test and for what it starts), and the requests that were answered
    bucket   the name of an empty bucket in it

moto 5.2.5 honours If-None-Match on PutObject and CompleteMultipartUpload and If-Match on PutObject and DeleteObject,
but looks first and writes later, in threads. S3 does both in one step, so here such requests come one at a time. A body
is read whole before moto sees the request, as S3 never shows half of one.

`python -m tests.aws` serves in the foreground, says where, and ends when its stdin does.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIApplication, WSGIEnvironment

REGION = "us-east-1"
# Real sources of credentials and settings are shut out: a test never reaches AWS.
_FOREIGN = ("AWS_PROFILE", "AWS_SESSION_TOKEN", "AWS_REGION", "AWS_ROLE_ARN", "AWS_CA_BUNDLE", "AWS_ENDPOINT_URL_S3")
# A refusal comes in colours.
_ANSWERED = re.compile(r'"(?:\x1b\[[\d;]*m)*([A-Z]+) (\S+) HTTP/1\.\d(?:\x1b\[0m)*" (\d{3})')


@dataclass(frozen=True)
class Aws:
    """A server that has just been emptied."""

    endpoint: str
    env: dict[str, str]
    log: Path
    _skip: int

    def requests(self) -> list[tuple[str, str, int]]:
        """Method, path with query, and status of each request since the test began."""
        text = self.log.read_bytes()[self._skip :].decode()
        return [(method, path, int(status)) for method, path, status in _ANSWERED.findall(text)]


def credentials(endpoint: str) -> dict[str, str]:
    """The environment of a client of the server at `endpoint`, which lets everybody in."""
    return {
        "AWS_ENDPOINT_URL": endpoint,
        "AWS_ACCESS_KEY_ID": "testing",
        "AWS_SECRET_ACCESS_KEY": "testing",
        "AWS_DEFAULT_REGION": REGION,
        "AWS_EC2_METADATA_DISABLED": "true",
        "AWS_CONFIG_FILE": os.devnull,
        "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
        "NO_PROXY": "127.0.0.1",
    }


@pytest.fixture(scope="session")
def aws_process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Path]]:
    """Address and log of the server of this session."""
    log = tmp_path_factory.mktemp("aws") / "requests.log"
    # It goes when we do, however we go: its stdin is ours.
    with (
        log.open("wb") as file,
        subprocess.Popen(
            [sys.executable, "-m", "tests.aws"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=file, text=True
        ) as process,
    ):
        assert process.stdout
        assert process.stdin
        endpoint = process.stdout.readline().strip()
        assert endpoint, log.read_text()
        yield endpoint, log
        process.stdin.close()
        process.wait(10)


@pytest.fixture
def aws(aws_process: tuple[str, Path], monkeypatch: pytest.MonkeyPatch) -> Aws:
    """AWS without a bucket or a machine in it, in the environment of this test."""
    endpoint, log = aws_process
    with urllib.request.urlopen(urllib.request.Request(f"{endpoint}/moto-api/reset", method="POST"), timeout=30):
        pass
    env = credentials(endpoint)
    for name in _FOREIGN:
        monkeypatch.delenv(name, raising=False)
    for name, value in env.items():
        monkeypatch.setenv(name, value)
    return Aws(endpoint, env, log, log.stat().st_size)


@pytest.fixture
def bucket(aws: Aws) -> str:
    """An empty bucket."""
    import boto3

    client = boto3.client("s3", endpoint_url=aws.endpoint)
    client.create_bucket(Bucket="foundry-test")
    client.close()
    return "foundry-test"


def _in_one_step(app: WSGIApplication) -> WSGIApplication:
    """`app` with whole bodies, and conditional requests one at a time."""
    from werkzeug.exceptions import ClientDisconnected
    from werkzeug.wsgi import get_input_stream

    lock = threading.Lock()

    def answer(environ: WSGIEnvironment, start: StartResponse) -> Iterable[bytes]:
        try:
            body = get_input_stream(environ).read()
        except ClientDisconnected as error:
            return error(environ, start)
        environ |= {"wsgi.input": BytesIO(body), "CONTENT_LENGTH": str(len(body))}
        environ.pop("HTTP_TRANSFER_ENCODING", None)
        if not {"HTTP_IF_NONE_MATCH", "HTTP_IF_MATCH"} & environ.keys():
            return app(environ, start)
        with lock:
            return app(environ, start)

    return answer


def main() -> None:
    """Serve on a free port until stdin ends."""
    from moto.moto_server.werkzeug_app import DomainDispatcherApplication, MotoRequestHandler, create_backend_app
    from werkzeug.serving import make_server

    app = _in_one_step(DomainDispatcherApplication(create_backend_app))
    server = make_server("127.0.0.1", 0, app, threaded=True, request_handler=MotoRequestHandler)
    print(f"http://127.0.0.1:{server.port}", flush=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    sys.stdin.read()


if __name__ == "__main__":
    main()

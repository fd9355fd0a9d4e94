"""A real registry on loopback, and a proxy before it that refuses, breaks or cuts what it is told to."""

from __future__ import annotations

import http.client
import re
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import yaml

from publish.image.tools import need

HOST = "127.0.0.1"
_START_SECONDS = 20.0


@dataclass(frozen=True)
class Request:
    """A request by method and path; the query makes no difference."""

    method: str
    path: str
    query: str = field(default="", compare=False)


@dataclass
class Registry:
    """Where it answers, as host:port, and the log of what it was asked."""

    address: str
    log: Path

    def requests(self) -> list[Request]:
        """Everything that it was asked so far."""
        found = re.findall(r'"([A-Z]+) (/v2/[^ ?"]*)[^"]* HTTP/1\.1"', self.log.read_text(encoding="utf-8"))
        return [Request(method, path) for method, path in found]

    def since(self, count: int) -> list[Request]:
        """What it was asked after the first `count` requests."""
        return self.requests()[count:]

    def digest(self, name: str, tag: str) -> str | None:
        """What the registry itself says a tag is; None when it has none."""
        with closing(http.client.HTTPConnection(self.address)) as connection:
            accept = "application/vnd.oci.image.manifest.v1+json"
            connection.request("HEAD", f"/v2/{name}/manifests/{tag}", headers={"Accept": accept})
            response = connection.getresponse()
            return response.headers["Docker-Content-Digest"] if response.status == http.client.OK else None


@contextmanager
def serving(root: Path, port: int = 0) -> Iterator[Registry]:
    """Debian's docker-registry, with its blobs below `root`; on any free port, unless one is given."""
    with socket.socket() as free:
        free.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        free.bind((HOST, port))
        address = f"{HOST}:{free.getsockname()[1]}"
    root.mkdir(parents=True, exist_ok=True)
    settings = {
        "version": 0.1,
        "log": {"level": "error"},
        "storage": {"filesystem": {"rootdirectory": str(root / "blobs")}, "delete": {"enabled": True}},
        "http": {"addr": address},
    }
    (root / "config.yaml").write_text(yaml.safe_dump(settings), encoding="utf-8")
    with (root / "log").open("wb") as log:
        command = [need("docker-registry"), "serve", str(root / "config.yaml")]
        process = subprocess.Popen(command, stdout=log, stderr=log, stdin=subprocess.DEVNULL)
        try:
            _wait(address, process)
            yield Registry(address, root / "log")
        finally:
            process.terminate()
            process.wait()


def _wait(address: str, process: subprocess.Popen[bytes]) -> None:
    until = time.monotonic() + _START_SECONDS
    while process.poll() is None and time.monotonic() < until:
        with closing(http.client.HTTPConnection(address)) as connection:
            try:
                connection.request("GET", "/v2/")
                if connection.getresponse().status == http.client.OK:
                    return
            except OSError:
                time.sleep(0.02)
    raise AssertionError("the registry does not start")


# What becomes of a request: a status to answer with, 0 to cut the connection, None to let it through.
Fate = Callable[[int, Request], int | None]


@dataclass
class Proxy:
    """Passes requests on to a registry; `fate` is asked with the number of each, from 0."""

    address: str
    fate: Fate = lambda _number, _request: None
    headers: list[dict[str, str]] = field(default_factory=list)
    seen: list[Request] = field(default_factory=list)

    def restart(self, fate: Fate) -> None:
        """Count anew."""
        self.fate = fate
        self.seen.clear()
        self.headers.clear()


@contextmanager
def proxied(registry: Registry) -> Iterator[Proxy]:
    """A proxy before `registry`."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_request(self, code: object = "-", size: object = "-") -> None:
            pass

        def log_error(self, *_words: object) -> None:
            """Nothing: skopeo knocks with TLS first."""

        def _any(self) -> None:
            request = Request(self.command, *self.path.partition("?")[::2])
            number = len(proxy.seen)
            proxy.seen.append(request)
            proxy.headers.append(dict(self.headers))
            fate = proxy.fate(number, request)
            if fate == 0:
                self.close_connection = True
                self.connection.shutdown(socket.SHUT_RDWR)
                return
            body = self._body()
            if fate is not None:
                self._answer(fate, {"WWW-Authenticate": 'Basic realm="here"'} if fate == 401 else {}, b"")
                return
            with closing(http.client.HTTPConnection(registry.address)) as behind:
                behind.putrequest(self.command, self.path, skip_host=True, skip_accept_encoding=True)
                for name, value in self.headers.items():
                    if name.lower() not in _HOP:
                        behind.putheader(name, value)
                behind.putheader("Content-Length", str(len(body)))
                behind.endheaders(body)
                response = behind.getresponse()
                answered = {name: value for name, value in response.getheaders() if name.lower() not in _HOP}
                self._answer(response.status, answered, response.read(), response.headers["Content-Length"])

        def _body(self) -> bytes:
            if self.headers.get("Transfer-Encoding") != "chunked":
                return self.rfile.read(int(self.headers.get("Content-Length", 0)))
            parts = []
            while size := int(self.rfile.readline(), 16):
                parts.append(self.rfile.read(size))
                self.rfile.readline()
            self.rfile.readline()
            return b"".join(parts)

        def _answer(self, status: int, headers: dict[str, str], body: bytes, length: str | None = None) -> None:
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", length or str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_GET = do_HEAD = do_POST = do_PUT = do_PATCH = _any  # noqa: N815  (http.server's names)

    with ThreadingHTTPServer((HOST, 0), Handler) as server:
        proxy = Proxy(f"{HOST}:{server.server_address[1]}")
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield proxy
        finally:
            server.shutdown()
            thread.join()


_HOP = {"connection", "content-length", "transfer-encoding", "keep-alive"}

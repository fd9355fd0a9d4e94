"""A stand-in for EC2's metadata service: it wants a token, and has a notice once it is told to."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

TOKEN = "the-token"
NOTICE = '{"action": "terminate", "time": "2026-01-01T00:00:00Z"}'


class Metadata:
    """The service; `told_at` is when the notice was first given out, on the monotonic clock."""

    def __init__(self, address: str) -> None:
        self.address = address
        self.noticed = threading.Event()
        self.told = threading.Event()
        self.told_at = 0.0


@contextmanager
def metadata() -> Iterator[Metadata]:
    """A service on loopback."""

    class Handler(BaseHTTPRequestHandler):
        def do_PUT(self) -> None:
            good = self.path == "/latest/api/token" and self.headers["x-aws-ec2-metadata-token-ttl-seconds"]
            self._answer(200 if good else 400, TOKEN)

        def do_GET(self) -> None:
            if self.headers["x-aws-ec2-metadata-token"] != TOKEN:
                self._answer(401, "")
            elif self.path != "/latest/meta-data/spot/instance-action" or not made.noticed.is_set():
                self._answer(404, "")
            else:
                self._answer(200, NOTICE)
                if not made.told.is_set():
                    made.told_at = time.monotonic()
                    made.told.set()

        def _answer(self, status: int, text: str) -> None:
            self.send_response(status)
            self.send_header("content-length", str(len(text)))
            self.end_headers()
            self.wfile.write(text.encode())

        def log_message(self, *_: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as service:
        made = Metadata(f"http://127.0.0.1:{service.server_address[1]}")
        thread = threading.Thread(target=service.serve_forever, args=(0.02,))
        thread.start()
        try:
            yield made
        finally:
            service.shutdown()
            thread.join()

"""A server that answers with given bytes, well or badly."""

from __future__ import annotations

import json
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

STREAM = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n"
ENDED = "the connection ended before the answer did"
DONE = b"data: [DONE]\n\n"


def chunk(finish: str | None = None, detail: str | None = None, **delta: str) -> bytes:
    choice: dict[str, Any] = {"index": 0, "delta": delta, "finish_reason": finish}
    if detail:
        choice["finish_detail"] = detail
    return b"data: " + json.dumps({"choices": [choice]}).encode() + b"\n\n"


def saying(*pieces: str, finish: str = "stop") -> bytes:
    return STREAM + b"".join(chunk(content=piece) for piece in pieces) + chunk(finish) + DONE


def refusing(status: str, body: bytes) -> bytes:
    return f"HTTP/1.1 {status}\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body


def envelope(message: str) -> bytes:
    return json.dumps({"error": {"message": message, "type": "t", "param": None, "code": None}}).encode()


class Plain:
    """A server on a socket that answers each question with the next of `replies`, bytes as they are."""

    def __init__(self) -> None:
        self.models = refusing("200 OK", b'{"data": [{"id": "fake"}]}')
        self.replies: list[bytes] = []
        self.asked: list[dict[str, Any]] = []
        self.keys: list[str | None] = []
        self.paths: list[str] = []
        plain = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                plain.paths.append(self.path)
                plain.keys.append(self.headers["authorization"])
                self.wfile.write(plain.models)

            def do_POST(self) -> None:
                plain.paths.append(self.path)
                plain.keys.append(self.headers["authorization"])
                plain.asked.append(json.loads(self.rfile.read(int(self.headers["content-length"]))))
                self.wfile.write(plain.replies.pop(0))

            def log_message(self, *_: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"

    def messages(self) -> list[list[tuple[str, str]]]:
        """Role and content of every message of every question."""
        return [[(one["role"], one["content"]) for one in asked["messages"]] for asked in self.asked]

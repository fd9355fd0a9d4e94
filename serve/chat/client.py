"""The client of the chat: one request to an OpenAI-compatible server, whose answer comes in chunks."""

from __future__ import annotations

import http.client
import json
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from serve.errors import ServeError

CONNECT_SECONDS = 10.0
_ENDED = "the connection ended before the answer did"


@dataclass(frozen=True, slots=True)
class Piece:
    """What a chunk adds to an answer; `cut` says which limit ended it: "token", "time" or, mostly, none."""

    text: str
    thought: str
    cut: str


class Server:
    """An OpenAI-compatible server; every failure is a ServeError of one sentence."""

    def __init__(self, url: str, api_key: str) -> None:
        """Of the address with or without /v1; nothing is sent yet."""
        wrong = f"--url is {url!r}; an address such as http://127.0.0.1:8080 is accepted"
        try:
            parts = urlsplit(url)
            host, port = parts.hostname, parts.port
        except ValueError:
            raise ServeError(wrong) from None
        kinds = {"http": http.client.HTTPConnection, "https": http.client.HTTPSConnection}
        if parts.scheme not in kinds or not host or "@" in parts.netloc or parts.query or parts.fragment:
            raise ServeError(wrong)
        if not (api_key.isascii() and api_key.isprintable()):
            raise ServeError("--api-key holds characters that no header can carry; printable ASCII is accepted")
        self.url = url
        self._root = parts.path.rstrip("/").removesuffix("/v1") + "/v1"
        self._headers = {"content-type": "application/json"}
        if api_key:
            self._headers["authorization"] = f"Bearer {api_key}"
        self._connect: Callable[[], http.client.HTTPConnection] = lambda: kinds[parts.scheme](
            host, port, timeout=CONNECT_SECONDS
        )

    def model(self) -> str:
        """The name of the model that is served."""
        with self._asked("GET", "/models") as response:
            try:
                return str(json.loads(response.read())["data"][0]["id"])
            except (ValueError, LookupError, TypeError):
                raise ServeError(f"{self.url} names no model; an OpenAI-compatible server is accepted") from None

    def answer(self, request: Mapping[str, Any]) -> Generator[Piece, None, None]:
        """The pieces of the answer to a chat completion request, until the stream says that it is done."""
        body = json.dumps({**request, "stream": True}).encode()
        with self._asked("POST", "/chat/completions", body) as response:
            for line in response:
                name, _, data = line.partition(b":")
                if name != b"data":
                    continue
                if data.strip() == b"[DONE]":
                    return
                yield from self._pieces(data)
        raise ServeError(f"{self.url}: {_ENDED}")

    def _pieces(self, data: bytes) -> list[Piece]:
        try:
            chunk = json.loads(data)
            if "error" not in chunk:
                return [_piece(choice) for choice in chunk["choices"]]
        except (ValueError, LookupError, TypeError, AttributeError):
            raise ServeError(f"{self.url}: a chunk is {data[:80]!r}; those of a chat completion are accepted") from None
        raise ServeError(f"{self.url}: {_message(data) or 'an error without a message'}")

    @contextmanager
    def _asked(self, method: str, path: str, body: bytes | None = None) -> Iterator[http.client.HTTPResponse]:
        """The response with status 200; its end, however it comes, closes the connection."""
        with closing(self._connect()) as connection:
            try:
                connection.connect()
                # An answer may wait in a queue, and Ctrl-C is there.
                connection.sock.settimeout(None)
            except OSError as error:
                words = error.strerror or str(error)
                raise ServeError(f"{self.url} cannot be reached: {words}; `python -m serve` starts a server") from error
            try:
                connection.request(method, self._root + path, body, self._headers)
                with connection.getresponse() as response:
                    if response.status != http.HTTPStatus.OK:
                        words = _message(response.read()) or response.reason
                        raise ServeError(f"{self.url}: {response.status}: {words}")
                    yield response
            except http.client.IncompleteRead as error:
                raise ServeError(f"{self.url}: {_ENDED}") from error
            except (OSError, http.client.HTTPException) as error:
                words = str(error) or type(error).__name__
                raise ServeError(f"{self.url}: the connection broke off: {words}") from error


def _piece(choice: Mapping[str, Any]) -> Piece:
    delta = choice.get("delta") or {}
    text, thought = (delta.get(name) or "" for name in ("content", "reasoning_content"))
    if not (isinstance(text, str) and isinstance(thought, str)):
        raise TypeError
    by_time = choice.get("finish_detail") == "timeout"
    return Piece(text, thought, ("time" if by_time else "token") if choice.get("finish_reason") == "length" else "")


def _message(data: bytes) -> str:
    """The sentence in an error of OpenAI's form; empty for anything else."""
    with suppress(ValueError, LookupError, TypeError):
        return " ".join(str(json.loads(data)["error"]["message"]).split())
    return ""

"""A connection: uvicorn's, with the limits that it leaves to a proxy, and the one envelope for what it cannot parse.

Departs from uvicorn in four ways. A head has a largest size. A request has a longest time to arrive, and its answer to
be read. Bytes that are no HTTP are answered in JSON, but never into the middle of another answer. A wish for another
protocol is passed over, as HTTP lets a server do: uvicorn's parser takes what follows it for that protocol, so that a
POST by Java's own client, which wishes for HTTP/2, loses its body.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable
from typing import Any

import httptools
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from serve.http.errors import ApiError
from serve.http.log import event

HEAD_LIMIT = 65_536
"""Bytes of a request line with its headers, or of anything else that is neither a body nor a whole head."""


class Connection(HttpToolsProtocol):
    """One client's connection. A request that takes longer than `seconds` to arrive is not waited for."""

    def __init__(self, *, seconds: float, count_error: Callable[[str], None], **uvicorn: Any) -> None:
        super().__init__(**uvicorn)
        self._seconds, self._count_error = seconds, count_error
        self._unfinished = 0  # bytes since the last that made something whole
        self._arriving: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Wait for a request."""
        super().connection_made(transport)
        self._wait()

    def connection_lost(self, exc: Exception | None) -> None:
        """Wait no more."""
        self._arrived()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Take what the client sent."""
        self._unset_keepalive_if_required()
        self._unfinished += len(data)
        left = memoryview(data)
        try:
            while left:
                left = left[self._parse(left) :]
        except httptools.HttpParserError:
            self._refuse(400, "the request is not valid HTTP; HTTP/1.1 is accepted", "invalid_http")
        if self._unfinished > HEAD_LIMIT:
            self._refuse_head()

    def on_message_begin(self) -> None:
        """A request begins."""
        super().on_message_begin()
        if self._arriving is None:
            self._wait()

    def on_headers_complete(self) -> None:
        """Its head is whole."""
        self._unfinished = 0
        if len(self.url) + sum(len(name) + len(value) + 4 for name, value in self.headers) > HEAD_LIMIT:
            self._refuse_head()
            raise ValueError  # which ends the parser's work on what follows
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """More of its body."""
        self._unfinished = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        """It is whole."""
        self._unfinished = 0
        if not self.parser.should_upgrade():
            self._arrived()
        super().on_message_complete()

    def on_response_complete(self) -> None:
        """An answer is whole; a client that does not read it is not waited for either."""
        super().on_response_complete()
        if self.transport.get_write_buffer_size():
            self.loop.call_later(self._seconds, self._unread)

    def _unread(self) -> None:
        if self.transport.get_write_buffer_size():
            self.transport.abort()

    def _should_upgrade(self) -> bool:
        """True, so that uvicorn does not begin to answer a request whose body its parser would not read.

        But CONNECT is no wish and has no path, for which uvicorn refuses it.
        """
        return self.parser.get_method() != b"CONNECT"

    def _parse(self, data: memoryview) -> int:
        """How many bytes are done with: all, or those up to a head that wishes for another protocol."""
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserUpgrade as wish:
            headers = [name + b": " + value + b"\r\n" for name, value in self.headers if name != b"upgrade"]
            line = b"%s %s HTTP/%s\r\n" % (self.parser.get_method(), self.url, self.parser.get_http_version().encode())
            self.parser.feed_data(b"".join([line, *headers, b"\r\n"]))
            return int(wish.args[0])
        return len(data)

    def _refuse_head(self) -> None:
        self._refuse(431, f"the request's head is too large; up to {HEAD_LIMIT} bytes are accepted", "head_too_large")

    def _refuse(self, status: int, sentence: str, code: str) -> None:
        """Close, and say why unless an answer is on its way."""
        if self.transport.is_closing():
            return
        if self._silent:
            request_id = secrets.token_hex(12)
            response = ApiError(status, sentence, code=code).response()
            headers = [*response.raw_headers, (b"x-request-id", request_id.encode()), (b"connection", b"close")]
            lines = [name + b": " + value + b"\r\n" for name, value in headers]
            self.transport.write(b"".join([STATUS_LINE[status], *lines, b"\r\n", response.body]))
            self._count_error(code)
            event("request", request_id=request_id, status=status, error=code)
        self.transport.close()

    @property
    def _silent(self) -> bool:
        """Whether no answer is on its way."""
        if self.cycle is None or self.cycle.response_complete:
            return True
        # Its own body is missing, so it waits for that and has nothing to say.
        return self.cycle.more_body and not self.cycle.response_started and not self.pipeline

    def _wait(self) -> None:
        self._arriving = self.loop.call_later(self._seconds, self._late)

    def _arrived(self) -> None:
        if self._arriving is not None:
            self._arriving.cancel()
            self._arriving = None

    def _late(self) -> None:
        if self.flow.read_paused:  # it is this server that lets the client wait
            self._wait()
        elif self._unfinished == 0 and self.cycle is None:
            self.transport.close()  # a connection that was never used, as browsers and proxies open them
        else:
            self._refuse(408, f"the request was not here within {self._seconds:g} s", "request_timeout")

"""The ASGI wrapper around every route: it writes the log and makes the planned fault happen."""

from __future__ import annotations

from typing import Any

from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from tests.hub.faults import Exchange, Fault, Watch

HALF_OF_SMALL = 64 << 10  # a body is cut at half of its length, and no later than here


class Cuttable(H11Protocol):
    """uvicorn's protocol, with the connection itself in reach of the application."""

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self.app_state = {**self.app_state, "transport": transport}


class _Gone(Exception):  # noqa: N818  (a state)
    """The connection was cut on purpose."""


class Tap:
    """`inner`, watched as `site`."""

    def __init__(self, site: str, inner: ASGIApp, watch: Watch) -> None:
        self.site, self.inner, self.watch = site, inner, watch

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = {key.decode().lower(): value.decode() for key, value in scope["headers"]}
        path, query = scope["raw_path"].decode(), scope["query_string"].decode()
        exchange = Exchange(
            site=self.site,
            method=scope["method"],
            path=f"{path}?{query}" if query else path,
            range=headers.get("range"),
            authorized="authorization" in headers,
        )
        self.watch.log.append(exchange)
        fault, length = self.watch.take(self.site), int(headers.get("content-length", 0))
        one = _Request(scope, receive, send, exchange, fault, length)
        try:
            await one.run(self.inner)
        except _Gone:
            await one.closed()


class _Request:
    """One request on its way through `inner`, with its fault."""

    def __init__(
        self, scope: Scope, receive: Receive, send: Send, exchange: Exchange, fault: Fault | None, length: int
    ) -> None:
        self.scope, self._receive, self._send = scope, receive, send
        self.exchange, self.fault, self.length = exchange, fault, length
        self.transport = scope["state"]["transport"]
        self.how = fault.how if fault else None

    async def run(self, inner: ASGIApp) -> None:
        if self.how == "before":
            self.cut()
        elif isinstance(self.how, int):
            await self.refuse(self.how)
        elif self.how == "whole":
            headers = [(key, value) for key, value in self.scope["headers"] if key.lower() != b"range"]
            await inner({**self.scope, "headers": headers}, self.receive, self.send)
        else:
            await inner(self.scope, self.receive, self.send)

    async def refuse(self, status: int) -> None:
        # The body is taken first: a client that still sends would see a reset instead of the status.
        while (await self.receive()).get("more_body"):
            pass
        assert self.fault is not None
        headers = {"Retry-After": str(self.fault.retry_after)} if status in {429, 503} else {}
        await JSONResponse({"error": f"injected {status}"}, status, headers)(self.scope, self.receive, self.send)

    async def receive(self) -> Message:
        message = await self._receive()
        self.exchange.received += len(message.get("body", b""))
        if self.how == "request" and self.exchange.received >= self.limit(self.length):
            self.cut()
        return message

    async def send(self, message: Message) -> None:
        if self.how in {"after", "request"}:
            self.cut()
        if message["type"] == "http.response.start":
            self.exchange.status = message["status"]
            lengths = [int(value) for key, value in message["headers"] if key.lower() == b"content-length"]
            self.length = lengths[0] if lengths else 0
        body = b"" if self.scope["method"] == "HEAD" else message.get("body", b"")
        # Counted first: once it is sent, the peer may go on and read the log.
        half = self.how in {"answer", "stall"} and bool(body)
        if half and len(body) >= (room := self.limit(self.length) - self.exchange.sent):
            self.exchange.sent += room
            await self._send({"type": "http.response.body", "body": body[:room], "more_body": True})
            self.cut()
        self.exchange.sent += len(body)
        await self._send(message)

    def limit(self, length: int) -> int:
        assert self.fault is not None
        return self.fault.at if self.fault.at is not None else min(length // 2, HALF_OF_SMALL)

    def cut(self) -> None:
        # close() sends what is buffered first, abort() does not: the peer of a half-sent answer gets that half.
        if self.how != "stall":
            (self.transport.close if self.how == "answer" else self.transport.abort)()
        raise _Gone

    async def closed(self) -> None:
        """Wait until the server knows, so that it does not answer for us."""
        while (await self._receive())["type"] != "http.disconnect":
            pass

"""What stands before every route: request ids, the log line, the key, the body limit, a net for what nobody foresaw.

Plain ASGI: the route keeps the connection's own `receive`, which is how it learns that a client has left.
"""

from __future__ import annotations

import hmac
import re
import secrets
import time
from collections.abc import Callable

from fastapi import HTTPException
from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from serve.http.errors import ApiError, as_api_error
from serve.http.log import LOG, event

_ID = re.compile(r"[\w.:-]{1,64}", re.ASCII)
# Probes and scrapers carry no key; none of these shows a prompt or an answer.
OPEN = frozenset({"/", "/health", "/ready", "/metrics"})


class _Gone(OSError):  # noqa: N818 - no fault of anybody
    """The server says that the client has left."""


class Guard:
    """Wraps the application; `count_error` is told the label of every error that goes out."""

    def __init__(self, app: ASGIApp, *, api_key: str, body_limit: int, count_error: Callable[[str], None]) -> None:
        self._app = app
        self._key = f"Bearer {api_key}".encode() if api_key else None
        self._body_limit = body_limit
        self._count_error = count_error

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        given = headers.get("x-request-id", "")
        request_id = given if _ID.fullmatch(given) else secrets.token_hex(12)
        state = scope.setdefault("state", {})
        state["request_id"] = request_id
        began, status = time.perf_counter(), 0

        async def tagged(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                MutableHeaders(scope=message)["x-request-id"] = request_id
            try:
                await send(message)
            except OSError as error:
                raise _Gone from error

        try:
            self._check(scope, headers)
            # HEAD is GET whose body uvicorn leaves out, going by its own scope.
            seen = {**scope, "method": "GET"} if scope["method"] == "HEAD" else scope
            await self._app(seen, self._limited(receive), tagged)
        except _Gone:
            state["error"] = "client_gone"
        except Exception as error:
            found = as_api_error(error)
            state["error"] = found.label
            if found.status >= 500:
                LOG.exception("request failed", extra={"fields": {"request_id": request_id}})
            if status:
                raise
            await found.response()(scope, receive, tagged)
        finally:
            if "error" in state:
                self._count_error(state["error"])
            if scope["path"] not in OPEN or status >= 400:
                milliseconds = round(1000 * (time.perf_counter() - began), 1)
                facts = {"status": status, "ms": milliseconds, "error": state.get("error")} | state.get("log", {})
                event("request", request_id=request_id, method=scope["method"], path=scope["path"][:200], **facts)

    def _check(self, scope: Scope, headers: Headers) -> None:
        given = headers.get("authorization", "").encode()
        if self._key is not None and scope["path"] not in OPEN and not hmac.compare_digest(given, self._key):
            challenge = {"www-authenticate": "Bearer"}
            message = "the key is missing or wrong; the server's API key is accepted as bearer token"
            raise ApiError(401, message, kind="authentication_error", code="invalid_api_key", headers=challenge)
        length = headers.get("content-length", "0")
        if length.isdecimal() and int(length) > self._body_limit:
            raise self._too_large()

    def _limited(self, receive: Receive) -> Receive:
        """`receive` that counts, for bodies that do not say how long they are."""
        received = 0

        async def counted() -> Message:
            nonlocal received
            message = await receive()
            received += len(message.get("body", b""))
            if received > self._body_limit:
                raise self._too_large()
            return message

        return counted

    def _too_large(self) -> HTTPException:
        # The rest of the body is not read: the connection is of no more use.
        words = f"the body is too large; up to {self._body_limit} bytes are accepted"
        return HTTPException(413, words, headers={"connection": "close"})

"""Server-sent events: chunks of JSON, an error as the last chunk where one comes too late for a status, `[DONE]`."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from serve.http.errors import ClientGone, as_api_error
from serve.http.log import LOG

DONE = b"data: [DONE]\n\n"
_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), check_circular=False, allow_nan=False).encode


def chunk(payload: Mapping[str, Any]) -> bytes:
    """One event."""
    return b"data: " + _encode(payload).encode() + b"\n\n"


class EventStream(Response):
    """A response of events; `close` is called when it is over, however it ends.

    A client that reads nothing for `patience` seconds is left.
    """

    media_type = "text/event-stream"

    def __init__(self, events: AsyncIterator[bytes], close: Callable[[], None], patience: float) -> None:
        super().__init__(headers={"cache-control": "no-cache", "x-accel-buffering": "no"})
        del self.headers["content-length"]
        self._events, self._close, self._patience = events, close, patience

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the events."""
        error: str | None = None

        async def body(part: bytes, *, more: bool = True) -> None:
            async with asyncio.timeout(self._patience):
                await send({"type": "http.response.body", "body": part, "more_body": more})

        try:
            await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
            try:
                async for event in self._events:
                    await body(event)
            except (OSError, ClientGone):
                raise
            except Exception as problem:
                found = as_api_error(problem)
                if found.status == 500:
                    LOG.exception("stream failed", extra={"fields": {"request_id": scope["state"].get("request_id")}})
                error = found.label
                await body(chunk(found.envelope()))
            await body(b"", more=False)
        except (OSError, ClientGone):  # the client has left, or does not read (TimeoutError is one)
            error = "client_gone"
        finally:
            if error is not None:
                scope["state"]["error"] = error
            self._close()

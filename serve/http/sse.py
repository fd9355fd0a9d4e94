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
            patience.begin()
            await send({"type": "http.response.body", "body": part, "more_body": more})
            patience.end()

        patience = _Patience(self._patience)
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
        except (OSError, ClientGone):
            error = "client_gone"
        except asyncio.CancelledError:
            if not patience.ran_out:
                raise
            patience.forgive()
            error = "client_gone"
        finally:
            patience.close()
            if error is not None:
                scope["state"]["error"] = error
            self._close()


class _Patience:
    """Cancels the task that made it when something it began takes longer than `seconds`.

    One timer for a whole stream, as a stream has thousands of writes and hardly one of them waits.
    """

    def __init__(self, seconds: float) -> None:
        task, self._seconds = asyncio.current_task(), seconds
        assert task is not None
        self._task = task
        self._loop = asyncio.get_running_loop()
        self._since: float | None = None
        self.ran_out = False
        self._timer = self._loop.call_later(seconds, self._look)

    def begin(self) -> None:
        """Something begins that may wait."""
        self._since = self._loop.time()

    def end(self) -> None:
        """It is over."""
        self._since = None

    def forgive(self) -> None:
        """Take the cancellation back, as it was meant for the stream and not for the task."""
        self._task.uncancel()

    def close(self) -> None:
        """Watch no more."""
        self._timer.cancel()

    def _look(self) -> None:
        left = self._seconds if self._since is None else self._since + self._seconds - self._loop.time()
        if left > 0:
            self._timer = self._loop.call_later(left, self._look)
        else:
            self.ran_out = True
            self._task.cancel()

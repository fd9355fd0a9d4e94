"""Request bodies: JSON as RFC 8259 has it, in UTF-8, without the NaN and Infinity that Python's parser knows besides.

Whatever else a body may be is a JSONDecodeError, which FastAPI makes a refusal of.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Coroutine
from typing import Any, NoReturn

from fastapi import Request, Response
from fastapi.routing import APIRoute


class JsonRequest(Request):
    """A request whose body is read by `parse`."""

    async def json(self) -> Any:
        """The document; JSONDecodeError when the body is none."""
        return parse(await self.body())


class JsonRoute(APIRoute):
    """A route whose requests are JsonRequests."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """FastAPI's own handler, given another request."""
        handler = super().get_route_handler()

        async def handle(request: Request) -> Response:
            return await handler(JsonRequest(request.scope, request.receive))

        return handle


def parse(body: bytes) -> Any:
    """The document in `body`; JSONDecodeError says what it is instead."""
    try:
        return json.loads(body.decode("utf-8-sig"), parse_constant=_refuse)
    except UnicodeDecodeError as error:
        raise json.JSONDecodeError(f"byte {body[error.start]:#04x} is not UTF-8", "", error.start) from None
    except RecursionError:
        raise json.JSONDecodeError("it is nested too deep", "", 0) from None
    except json.JSONDecodeError:
        raise
    except ValueError:  # Python's own bound on the digits of an integer
        raise json.JSONDecodeError("a number has too many digits", "", 0) from None


def _refuse(name: str) -> NoReturn:
    raise json.JSONDecodeError(f"{name} is no JSON value", "", 0)

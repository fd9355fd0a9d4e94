"""One envelope for every error: `{"error": {"message", "type", "param", "code"}}`, as OpenAI's client reads it."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, Field
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response

from serve.errors import ServeError
from serve.service.refusals import Refusal


class ErrorBody(BaseModel):
    """What went wrong."""

    message: str = Field(description="a sentence for a person")
    type: str
    param: str | None = Field(description="the field of the request that is at fault, where one is")
    code: str | None


class ErrorEnvelope(BaseModel):
    """The body of every answer with a status of 400 or more."""

    error: ErrorBody


class ApiError(Exception):
    """An answer that is an error; `headers` go out with it."""

    def __init__(
        self,
        status: int,
        message: str,
        *,
        kind: str = "invalid_request_error",
        param: str | None = None,
        code: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.status, self.kind, self.param, self.code = status, kind, param, code
        self.headers = dict(headers or {})

    @property
    def label(self) -> str:
        """What the metrics call it."""
        return self.code or self.kind

    def envelope(self) -> dict[str, Any]:
        """The body."""
        return {"error": {"message": str(self), "type": self.kind, "param": self.param, "code": self.code}}

    def response(self) -> Response:
        """The whole answer."""
        return JSONResponse(self.envelope(), self.status, self.headers)


class ClientGone(Exception):  # noqa: N818 - no fault of anybody
    """The client has left; there is nobody to answer."""


# What pydantic calls the types in a union.
_BRANCH = re.compile(r"str|int|float|bool|[a-z-]+\[.*|[A-Z][A-Za-z]+|constrained-str", re.DOTALL)
_CODES = {404: "not_found", 405: "method_not_allowed", 413: "request_too_large"}
_WORDS = {
    404: "there is nothing at this path; /openapi.json lists what there is",
    405: "this method is not accepted here; the header `allow` says which is",
}


def as_api_error(error: Exception) -> ApiError:
    """What a client is told of any exception; of one that nobody foresaw, nothing but that."""
    match error:
        case ApiError():
            found = error
        case Refusal():
            found = _refused(error)
        case ClientGone():
            found = ApiError(499, "the client has left", code="client_gone")
        case RequestValidationError():
            found = _invalid(error.errors())
        case ServeError():
            found = ApiError(400, str(error), code="invalid_value")
        case HTTPException(__cause__=ClientDisconnect()):  # FastAPI takes it for a body that it cannot parse
            found = as_api_error(ClientGone())
        case HTTPException():
            status = error.status_code
            words = _WORDS.get(status, str(error.detail))
            found = ApiError(status, words, code=_CODES.get(status), headers=error.headers)
        case _:
            words = "the server failed at this request; its log says why"
            found = ApiError(500, words, kind="server_error", code="internal")
    return found


async def answer(request: Request, error: Exception) -> Response:
    """The exception handler of the application."""
    found = as_api_error(error)
    request.state.error = found.label
    return found.response()


def _refused(refusal: Refusal) -> ApiError:
    headers = {}
    if refusal.retry_after is not None:
        milliseconds = math.ceil(refusal.retry_after * 1000)
        headers = {"retry-after": str(max(1, math.ceil(milliseconds / 1000))), "retry-after-ms": str(milliseconds)}
    match refusal.kind:
        case "too_large":
            return ApiError(400, str(refusal), param="n", code="too_many_answers")
        case "overloaded":
            return ApiError(429, str(refusal), kind="rate_limit_error", code="overloaded", headers=headers)
        case "loading" | "draining":
            if refusal.kind == "draining":
                headers["connection"] = "close"
            return ApiError(503, str(refusal), kind="unavailable_error", code=refusal.kind, headers=headers)
    return ApiError(500, str(refusal), kind="server_error", code="engine_failed")


def _invalid(found: Sequence[Mapping[str, Any]]) -> ApiError:
    # Each branch of a union has its say about a value: the one of the right type was meant, or else the deepest.
    first = max(found, key=lambda error: (not error["type"].endswith("_type"), len(error["loc"])))
    if first["type"] == "json_invalid":
        place = f" at character {first['loc'][-1]}" if first["loc"][-1] else ""
        return ApiError(400, f"the body is not JSON: {first['ctx']['error']}{place}", code="invalid_json")
    param = _param(first["loc"], unknown=first["type"] == "extra_forbidden")
    if first["type"] == "extra_forbidden":
        return ApiError(400, f"{param} is not supported by this server", param=param, code="unsupported_parameter")
    if first["type"] == "value_error":
        # A rule between fields; its sentence begins with the one that is at fault.
        words = str(first["ctx"]["error"])
        message = words if param is None else f"{param}: {words}"
        return ApiError(400, message, param=param or words.split(maxsplit=1)[0], code="invalid_value")
    if param is None:
        words = f"the body: {first['msg']}; a JSON object with content-type application/json is accepted"
        return ApiError(400, words, code="invalid_value")
    if first["type"] == "missing":
        return ApiError(400, f"{param} is missing", param=param, code="missing_parameter")
    return ApiError(400, f"{param}: {first['msg']}; found {_short(first['input'])}", param=param, code="invalid_value")


def _param(place: Sequence[int | str], *, unknown: bool) -> str | None:
    """`messages[0].content` of pydantic's place, without the names of a union's branches.

    The last name is a field's for certain only where it is an `unknown` one.
    """
    path = ""
    for number, part in enumerate(place[1:], 2):
        if isinstance(part, int):
            path += f"[{part}]"
        elif part != "[key]" and ((unknown and number == len(place)) or not _BRANCH.fullmatch(part)):
            path += f".{part}" if path else part
    return path.encode(errors="replace").decode()[:200] or None


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."

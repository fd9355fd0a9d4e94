"""What makes the OpenAPI document true: the errors of each route, streams, and no answer that is never given."""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI, Request
from fastapi.openapi.utils import get_openapi

from serve.http.desk import Desk
from serve.http.errors import ErrorEnvelope

Responses = dict[int | str, dict[str, Any]]
_WORDS = {
    400: "the request is not valid; `param` names the field",
    401: "the API key is missing or wrong",
    404: "no such model",
    413: "the body is too large",
    429: "the queue is full, or its time limit has passed; `retry-after` and `retry-after-ms` say when to try again",
    500: "the server failed",
    503: "the server is loading or shutting down; `retry-after` and `retry-after-ms` say when to try again",
}
_RETRY = {
    "retry-after": {"description": "seconds", "schema": {"type": "string"}},
    "retry-after-ms": {"description": "milliseconds", "schema": {"type": "string"}},
}
# An event as clients of server-sent events parse it.
_EVENT = {"type": "object", "properties": {"data": {"type": "string"}}, "required": ["data"]}
# What pydantic calls a bound that stands outside of a validator, and JSON Schema does not know.
_BOUNDS = {"ge": "minimum", "le": "maximum", "gt": "exclusiveMinimum", "lt": "exclusiveMaximum"}


def errors(*statuses: int) -> Responses:
    """Entries for the `responses` of a route."""
    found: Responses = {}
    for status in statuses:
        found[status] = {"model": ErrorEnvelope, "description": _WORDS[status]}
        if status in (429, 503):
            found[status]["headers"] = _RETRY
    return found


COMPLETION_ERRORS = errors(400, 401, 404, 413, 429, 500, 503)


def streamed(what: str) -> Responses:
    """The second content type of a route that answers with events when `stream` is true."""
    words = f"with `stream` true: server-sent events, {what}; an error that comes late is an event with the key `error`"
    return {200: {"content": {"text/event-stream": {"schema": _EVENT | {"description": words}}}}}


def desk_of(request: Request) -> Desk:
    """The desk of the application that a request came to."""
    desk: Desk = request.app.state.desk
    return desk


def document(app: FastAPI) -> dict[str, Any]:
    """The OpenAPI document; FastAPI would add a status 422 that this server does not use."""
    if app.openapi_schema is None:
        made = get_openapi(title=app.title, version=app.version, description=app.description, routes=app.routes)
        for path in made["paths"].values():
            for operation in path.values():
                operation["responses"].pop("422", None)
        for name in ("HTTPValidationError", "ValidationError"):
            made["components"]["schemas"].pop(name, None)
        if app.state.desk.settings.api_key:
            made["components"]["securitySchemes"] = {"key": {"type": "http", "scheme": "bearer"}}
            made["security"] = [{"key": []}]
        app.openapi_schema = _bounded(made)
    return app.openapi_schema


def _bounded(node: Any) -> Any:
    """`node` with every bound under the name that JSON Schema has for it."""
    if isinstance(node, list):
        return [_bounded(part) for part in node]
    if not isinstance(node, dict):
        return node
    number = node.get("type") in ("integer", "number")
    found = {_BOUNDS.get(name, name) if number else name: _bounded(value) for name, value in node.items()}
    # Keys that match no pattern are refused; without this the document would allow them anything.
    return found | ({"additionalProperties": False} if "patternProperties" in node else {})

"""`GET /health`, `/ready` and `/metrics`."""

from __future__ import annotations

from typing import Literal

from fastapi import APIRouter, Request
from prometheus_client import CONTENT_TYPE_LATEST
from pydantic import BaseModel
from starlette.responses import Response

from serve.http.openapi import desk_of, errors

router = APIRouter()


class Health(BaseModel):
    """The process lives; `state` says what it does."""

    status: Literal["ok"] = "ok"
    state: Literal["loading", "ready", "draining"]


class Ready(BaseModel):
    """The server takes requests."""

    status: Literal["ready"] = "ready"


@router.get("/health", responses=errors(500), summary="Whether the process lives, also while it loads or drains")
async def health(request: Request) -> Health:
    """500 once the engine has failed."""
    service = desk_of(request).service
    if service.state == "failed":
        service.check()
    return Health(state=service.state)


@router.get("/ready", responses=errors(500, 503), summary="Whether requests are taken")
async def ready(request: Request) -> Ready:
    """503 while the server loads or drains."""
    desk_of(request).service.check()
    return Ready()


@router.get(
    "/metrics",
    response_class=Response,
    responses=errors(500) | {200: {"content": {"text/plain": {"schema": {"type": "string"}}}}},
    summary="Prometheus metrics",
)
async def metrics(request: Request) -> Response:
    """In Prometheus' text format."""
    desk = desk_of(request)
    service = desk.service
    page = desk.metrics.render(service.state, service.running, service.waiting)
    return Response(page, headers={"content-type": CONTENT_TYPE_LATEST})

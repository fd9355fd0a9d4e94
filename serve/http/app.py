"""The application: routes, the error envelope, and the guard in front."""

from __future__ import annotations

from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException

from serve.errors import ServeError
from serve.http import chat, completions, errors, generate, models, openapi, probes, status
from serve.http.desk import Desk
from serve.http.guard import Guard
from serve.service.refusals import Refusal

VERSION = "0.1.0"


def create_app(desk: Desk) -> FastAPI:
    """The ASGI application over `desk`."""
    app = FastAPI(
        title="neff-foundry",
        version=VERSION,
        description="A Gemma 4 checkpoint behind OpenAI's API.",
        docs_url=None,  # these pages load scripts from elsewhere
        redoc_url=None,
        redirect_slashes=False,
    )
    app.state.desk = desk
    for room in (chat, completions, models, generate, probes, status):
        app.include_router(room.router)
    for kind in (errors.ApiError, errors.ClientGone, Refusal, ServeError, RequestValidationError, HTTPException):
        app.add_exception_handler(kind, errors.answer)
    app.openapi = lambda: openapi.document(app)  # type: ignore[method-assign]
    settings = desk.settings
    app.add_middleware(Guard, api_key=settings.api_key, body_limit=settings.body_limit, count_error=desk.metrics.error)
    return app

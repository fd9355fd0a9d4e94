"""The storage host: large files behind signed URLs, at another host name than the Hub's, as on the real one.

Whoever holds the URL may read or write what it names; a token must never be sent here.
"""

from __future__ import annotations

import hmac
from collections.abc import Callable
from typing import Any

from starlette.requests import Request
from starlette.responses import FileResponse, Response

from tests.hub.access import library, text
from tests.hub.answers import Refusal
from tests.hub.repository import Repository


def storage_url(request: Request, identity: str, *parts: str, filename: str = "") -> str:
    """A signed URL of an object or of a part of an upload."""
    path = "/storage/" + "/".join((identity, *parts))
    named = f"&response-content-disposition=attachment;filename={filename}" if filename else ""
    return f"{request.app.state.storage}{path}?X-Signature={_signature(request, path)}{named}"


def _signature(request: Request, path: str) -> str:
    secret: bytes = request.app.state.secret
    return hmac.new(secret, path.encode(), "sha256").hexdigest()


def _signed(request: Request) -> Repository:
    if request.query_params.get("X-Signature") != _signature(request, request.scope["raw_path"].decode()):
        raise Refusal(403, "The signature does not match")
    if "authorization" in request.headers:
        raise Refusal(400, "Only one auth mechanism allowed")
    found = library(request).get(f"{request.path_params['owner']}/{request.path_params['name']}")
    if found is None:
        raise Refusal(404, "No such bucket")
    return found


async def get(request: Request) -> Response:
    """A large file, or the range of it that was asked for."""
    entry = (found := _signed(request)).objects.large(text(request, "oid"))
    if entry is None:
        raise Refusal(404, "No such key")
    return FileResponse(found.objects.path(entry), media_type="application/octet-stream")


async def put(request: Request) -> Response:
    """A whole large file."""
    found, oid = _signed(request), text(request, "oid")
    if not await found.objects.receive(oid, request.stream()):
        raise Refusal(400, "The content does not have the announced sha256")
    return Response(headers={"ETag": f'"{oid}"'})


async def put_part(request: Request) -> Response:
    """One part of a large file."""
    found = _signed(request)
    number = int(text(request, "number"))
    etag = await found.objects.receive_part(text(request, "upload"), number, request.stream())
    return Response(headers={"ETag": f'"{etag}"'})


OBJECT = "/storage/{owner}/{name}/{oid}"
ROUTES: tuple[tuple[str, str, str, Callable[..., Any]], ...] = (
    ("storage_get", "GET", OBJECT, get),
    ("lfs_put", "PUT", OBJECT, put),
    ("lfs_part", "PUT", "/storage/{owner}/{name}/{upload}/{number}", put_part),
)

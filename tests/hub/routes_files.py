"""Routes that read: the tree of a revision, and the files themselves.

A large file is answered with a redirect to the storage host, by a signed URL that needs no token; the headers of the
redirect say what is behind it. A regular file is redirected to a place on the same host, named by commit.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from urllib.parse import parse_qs, quote

from starlette.requests import Request
from starlette.responses import FileResponse, JSONResponse, Response

from tests.hub.access import commit_of, repository, text
from tests.hub.answers import Refusal
from tests.hub.objects import Entry
from tests.hub.repository import Repository
from tests.hub.routes_repository import REPOSITORY
from tests.hub.storage import storage_url


def file_facts(path: str, entry: Entry) -> dict[str, Any]:
    """A file as the tree lists it."""
    facts: dict[str, Any] = {"type": "file", "oid": entry.oid, "size": entry.size, "path": path}
    if entry.lfs:
        facts["lfs"] = {"oid": entry.lfs, "size": entry.size, "pointerSize": entry.pointer_size}
    return facts


def listing(tree: dict[str, Entry], below: str, recursive: bool) -> list[dict[str, Any]]:
    """Files and folders under the folder `below` ("" is all), sorted by path."""
    prefix = f"{below}/" if below else ""
    found: dict[str, dict[str, Any]] = {}
    for path, entry in tree.items():
        if not path.startswith(prefix):
            continue
        parts = path.removeprefix(prefix).split("/")
        for depth in range(1, len(parts)):
            folder = prefix + "/".join(parts[:depth])
            if recursive or depth == 1:
                found[folder] = {"type": "directory", "oid": "0" * 40, "size": 0, "path": folder}
        if recursive or len(parts) == 1:
            found[path] = file_facts(path, entry)
    return [found[path] for path in sorted(found)]


async def tree(request: Request) -> Response:
    """One page of the listing; the `Link` header names the next."""
    found = repository(request)
    oid = commit_of(found, text(request, "revision"))
    below = text(request, "path").strip("/") if "path" in request.path_params else ""
    recursive, expand = (request.query_params.get(key, "").lower() == "true" for key in ("recursive", "expand"))
    entries = listing(found.tree(oid), below, recursive)
    if below and not entries:
        raise Refusal(404, f'{below} does not exist on "{text(request, "revision")}"', "EntryNotFound")
    size, start = request.app.state.page, int(request.query_params.get("cursor", 0))
    page = entries[start : start + size]
    headers = {}
    if start + size < len(entries):
        url = request.url.include_query_params(cursor=start + size)
        headers["Link"] = f'<{request.app.state.endpoint}{request.scope["raw_path"].decode()}?{url.query}>; rel="next"'
    return JSONResponse([expanded(found, oid, one) if expand else one for one in page], headers=headers)


async def paths_info(request: Request) -> Response:
    """The entries of the paths that were asked for and are there."""
    found = repository(request)
    oid = commit_of(found, text(request, "revision"))
    form = parse_qs((await request.body()).decode())
    wanted = {path.strip("/") for path in form.get("paths", ())}
    expand = form.get("expand", [""])[0].lower() == "true"
    entries = [one for one in listing(found.tree(oid), "", recursive=True) if one["path"] in wanted]
    return JSONResponse([expanded(found, oid, one) if expand else one for one in entries])


def expanded(found: Repository, oid: str, one: dict[str, Any]) -> dict[str, Any]:
    """The entry with the commit that last changed it."""
    history = found.history(oid)
    at = [found.tree(commit).get(one["path"]) for commit in history]
    last = next((i for i in range(len(history) - 1) if at[i] != at[i + 1]), len(history) - 1)
    facts = found.commit(history[last])
    safe = {"status": "safe", "avScan": None, "pickleImportScan": None}
    more = {"lastCommit": {"id": history[last], "title": facts["title"], "date": facts["date"]}}
    return one | more | ({"securityFileStatus": safe} if one["type"] == "file" else {})


async def resolve(request: Request) -> Response:
    """Where a file's content is, for HEAD and GET alike."""
    found = repository(request, files=True)
    oid = commit_of(found, text(request, "revision"))
    path = text(request, "path")
    entry = found.tree(oid).get(path)
    headers = {"X-Repo-Commit": oid, "Accept-Ranges": "bytes"}
    if entry is None:
        raise Refusal(404, "Entry not found", "EntryNotFound", commit=oid)
    headers |= {"X-Linked-Size": str(entry.size), "X-Linked-ETag": f'"{entry.lfs or entry.oid}"'}
    if entry.lfs:
        location = storage_url(request, found.identity, entry.lfs, filename=path.rsplit("/", 1)[-1])
        return Response(status_code=302, headers=headers | {"Location": location})
    location = f"/api/resolve-cache/models/{found.identity}/{oid}/{quote(path, safe='')}"
    return Response(status_code=307, headers=headers | {"ETag": f'"{entry.oid}"', "Location": location})


async def regular(request: Request) -> Response:
    """A regular file by commit and path."""
    found = repository(request, files=True)
    oid = commit_of(found, text(request, "revision"))
    entry = found.tree(oid).get(text(request, "path"))
    if entry is None or entry.lfs:
        raise Refusal(404, "Entry not found", "EntryNotFound", commit=oid)
    headers = {"X-Repo-Commit": oid, "ETag": f'"{entry.oid}"'}
    return FileResponse(found.objects.path(entry), headers=headers, media_type="application/octet-stream")


FILE = "/{owner}/{name}/resolve/{revision}/{path:path}"
REGULAR = "/api/resolve-cache/models/{owner}/{name}/{revision}/{path}"
ROUTES: tuple[tuple[str, str, str, Callable[..., Any]], ...] = (
    ("tree", "GET", REPOSITORY + "/tree/{revision}", tree),
    ("tree", "GET", REPOSITORY + "/tree/{revision}/{path:path}", tree),
    ("paths_info", "POST", REPOSITORY + "/paths-info/{revision}", paths_info),
    ("resolve_head", "HEAD", FILE, resolve),
    ("resolve_get", "GET", FILE, resolve),
    ("file_head", "HEAD", REGULAR, regular),
    ("file_get", "GET", REGULAR, regular),
)

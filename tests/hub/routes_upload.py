"""Routes that write: how a file is to come (preupload), the LFS batch, and the commit."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from fnmatch import fnmatch
from math import ceil
from typing import Any
from uuid import uuid4

import yaml
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from tests.hub.access import commit_of, library, repository, text
from tests.hub.answers import Refusal
from tests.hub.repository import Moved, Repository, Tree
from tests.hub.routes_repository import REPOSITORY, front_matter
from tests.hub.storage import storage_url


async def preupload(request: Request) -> Response:
    """For each file: regular or LFS (by .gitattributes, size or binary content), whether .gitignore names it, and
    the id it has now."""
    found, asked = repository(request, write=True), await request.json()
    tree = found.tree(commit_of(found, text(request, "revision")))
    large_names = [line.split()[0] for line in _lines(found, tree, ".gitattributes") if "filter=lfs" in line]
    ignored = asked["gitIgnore"].splitlines() if "gitIgnore" in asked else _lines(found, tree, ".gitignore")
    files = []
    for one in asked["files"]:
        path, sample = one["path"], base64.b64decode(one["sample"])
        named = _matches(path, large_names)
        large = named or one["size"] > request.app.state.regular_limit or b"\0" in sample
        now = tree.get(path)
        files.append(
            {
                "path": path,
                "uploadMode": "lfs" if large else "regular",
                "shouldIgnore": _matches(path, ignored),
                "oid": (now.lfs or now.oid) if now else None,
            }
        )
    return JSONResponse({"files": files, "commitOid": found.find(text(request, "revision"))})


def _lines(found: Repository, tree: Tree, name: str) -> list[str]:
    return found.objects.path(tree[name]).read_text().splitlines() if name in tree else []


def _matches(path: str, patterns: list[str]) -> bool:
    """Whether a pattern names the file or a folder it is in; of git's own rules, the plain ones."""
    parts = path.split("/")
    names = [*parts, *("/".join(parts[:depth]) for depth in range(1, len(parts) + 1))]
    wanted = [pattern.strip().strip("/") for pattern in patterns if pattern.strip() and not pattern.startswith("#")]
    return any(fnmatch(name, pattern) for name in names for pattern in wanted)


async def lfs_batch(request: Request) -> Response:
    """Upload instructions by object; an object that is there already gets none
    (https://github.com/git-lfs/git-lfs/blob/main/docs/api/batch.md)."""
    found, asked = repository(request, write=True), await request.json()
    if asked["operation"] != "upload" or not {"basic", "multipart"} & set(asked["transfers"]):
        raise Refusal(422, "Only uploads by basic or multipart are served")
    limit = request.app.state.part_size
    objects = []
    for one in asked["objects"]:
        oid, size = one["oid"], one["size"]
        answer: dict[str, Any] = {"oid": oid, "size": size}
        if found.objects.large(oid) is None:
            base = f"{request.app.state.endpoint}/{found.identity}.git/info/lfs"
            upload: dict[str, Any] = {"href": storage_url(request, found.identity, oid)}
            if size > limit and "multipart" in asked["transfers"]:
                name = uuid4().hex
                numbers = range(1, ceil(size / limit) + 1)
                parts = {f"{i:05d}": storage_url(request, found.identity, name, str(i)) for i in numbers}
                upload = {
                    "href": f"{base}/complete/{name}",
                    "header": {"chunk_size": str(limit)} | parts,
                }
            answer |= {"authenticated": True, "actions": {"upload": upload, "verify": {"href": f"{base}/verify"}}}
        objects.append(answer)
    transfer = "multipart" if any("header" in one.get("actions", {}).get("upload", {}) for one in objects) else "basic"
    return JSONResponse({"transfer": transfer, "objects": objects}, media_type="application/vnd.git-lfs+json")


async def lfs_complete(request: Request) -> Response:
    """Put the parts together. The client sends no token here: whoever knows the upload's name may end it."""
    found = library(request).get(f"{request.path_params['owner']}/{request.path_params['name']}")
    if found is None:
        raise Refusal(404, "Repository not found", "RepoNotFound")
    asked = await request.json()
    parts = sorted(asked["parts"], key=lambda part: int(part["partNumber"]))
    etags = [part["etag"].strip('"') for part in parts]
    # Asked again, as after an answer that got lost, it is done already.
    known = found.objects.large(asked["oid"])
    if known is None and not found.objects.complete(asked["oid"], text(request, "upload"), etags):
        raise Refusal(400, "The parts do not make up the announced content")
    return JSONResponse({"success": True})


async def lfs_verify(request: Request) -> Response:
    """Whether the object has arrived with its size."""
    found, asked = repository(request, write=True), await request.json()
    entry = found.objects.large(asked["oid"])
    if entry is None or entry.size != asked["size"]:
        raise Refusal(404, "The object is not there")
    return JSONResponse({"success": True})


async def commit(request: Request) -> Response:
    """One commit from lines of JSON: a header, then the operations."""
    found, branch = repository(request, write=True), text(request, "revision")
    lines = [json.loads(line) for line in (await request.body()).splitlines() if line.strip()]
    if not lines or lines[0]["key"] != "header":
        raise Refusal(400, "The first line must be the header")
    header = lines[0]["value"]
    if not header.get("summary"):
        raise Refusal(400, "Commit summary is empty")
    if branch not in found.refs("branches"):
        raise Refusal(404, f"Invalid rev id: {branch}", "RevisionNotFound")
    head = found.refs("branches")[branch]
    parent = header.get("parentCommit", head)
    if not head.startswith(parent):
        raise _moved()
    tree = found.tree(head)
    for line in lines[1:]:
        _apply(found, tree, line["key"], line["value"])
    try:
        oid = found.advance(branch, tree, header["summary"], header.get("description", ""), head)
    except Moved:
        raise _moved() from None
    url = f"{request.app.state.endpoint}/{found.identity}/commit/{oid}"
    return JSONResponse({"success": True, "commitOid": oid, "commitUrl": url, "hookOutput": ""})


def _moved() -> Refusal:
    return Refusal(412, "A commit has happened since. Please refresh and try again.")


def _apply(found: Repository, tree: Tree, key: str, value: dict[str, Any]) -> None:
    path = value["path"]
    if any(part in {"", ".", "..", ".git"} for part in path.removesuffix("/").split("/")):
        raise Refusal(400, f"Invalid path: {path}")
    match key:
        case "file":
            data = base64.b64decode(value["content"])
            if path == "README.md":
                _check_card(data)
            tree[path] = found.objects.keep(data)
        case "lfsFile":
            entry = found.objects.large(value["oid"])
            if entry is None or value.get("size", entry.size) != entry.size:
                raise Refusal(400, f"LFS pointer pointed to a file that does not exist: {path}")
            tree[path] = entry
        case "deletedFile":
            if tree.pop(path, None) is None:
                raise Refusal(404, f"A file with this name doesn't exist: {path}", "EntryNotFound")
        case "deletedFolder":
            inside = [name for name in tree if name.startswith(path.removesuffix("/") + "/")]
            if not inside:
                raise Refusal(404, f"A file with this name doesn't exist: {path}", "EntryNotFound")
            for name in inside:
                del tree[name]
        case _:
            raise Refusal(400, f"Unknown operation: {key}")


def _check_card(data: bytes) -> None:
    try:
        front_matter(data)
    except yaml.YAMLError:
        raise Refusal(400, "Invalid YAML metadata in README.md") from None


LFS = "/{owner}/{name}.git/info/lfs"
ROUTES: tuple[tuple[str, str, str, Callable[..., Any]], ...] = (
    ("preupload", "POST", REPOSITORY + "/preupload/{revision}", preupload),
    ("lfs_batch", "POST", LFS + "/objects/batch", lfs_batch),
    ("lfs_complete", "POST", LFS + "/complete/{upload}", lfs_complete),
    ("lfs_verify", "POST", LFS + "/verify", lfs_verify),
    ("commit", "POST", REPOSITORY + "/commit/{revision}", commit),
)

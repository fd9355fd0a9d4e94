"""Routes around a repository: accounts, create and delete, information, branches and tags."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from typing import Any

import yaml
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from tests.hub.access import account, commit_of, library, repository, text, writable
from tests.hub.answers import Refusal
from tests.hub.repository import Kind, Repository

REPOSITORY = "/api/models/{owner}/{name}"


async def whoami(request: Request) -> Response:
    asker = account(request)
    if asker is None:
        raise Refusal(401, "Invalid username or password.")
    role = "write" if asker.write else "read"
    return JSONResponse(
        {
            "type": "user",
            "name": asker.user,
            "fullname": asker.user,
            "orgs": [{"type": "org", "name": name} for name in asker.organizations],
            "auth": {"type": "access_token", "accessToken": {"displayName": "tests", "role": role}},
        }
    )


async def create(request: Request) -> Response:
    asked, asker = await request.json(), account(request)
    owner = asked.get("organization") or (asker.user if asker else "")
    writable(asker, owner)
    identity = f"{owner}/{asked['name']}"
    url = f"{request.app.state.endpoint}/{identity}"
    if library(request).get(identity):
        message = "You already created this model repo"
        return JSONResponse({"error": message, "url": url}, 409, {"X-Error-Message": message})
    made = library(request).create(identity)
    made.change(private=asked.get("visibility") == "private" or asked.get("private") is True)
    return JSONResponse({"url": url, "name": identity, "id": identity})


async def delete(request: Request) -> Response:
    asked, asker = await request.json(), account(request)
    owner = asked.get("organization") or (asker.user if asker else "")
    writable(asker, owner)
    found = library(request).get(f"{owner}/{asked['name']}")
    if found is None:
        raise Refusal(404, "Repository not found", "RepoNotFound")
    shutil.rmtree(found.folder)
    return Response("OK")


async def info(request: Request) -> Response:
    """What `model_info` reads; with `blobs=true` size, blob id and LFS sha256 of every file."""
    found = repository(request)
    oid = commit_of(found, text(request, "revision") if "revision" in request.path_params else "main")
    tree, settings, newest = found.tree(oid), found.settings, found.commit(oid)
    card = front_matter(found.objects.path(tree["README.md"]).read_bytes()) if "README.md" in tree else {}
    siblings: list[dict[str, Any]] = [{"rfilename": path} for path in tree]
    if request.query_params.get("blobs") in {"true", "True", "1"}:
        for one, entry in zip(siblings, tree.values(), strict=True):
            one |= {"size": entry.size, "blobId": entry.oid}
            if entry.lfs:
                one["lfs"] = {"sha256": entry.lfs, "size": entry.size, "pointerSize": entry.pointer_size}
    tags = [*card.get("tags", ()), *([f"license:{card['license']}"] if "license" in card else ())]
    facts = {
        "_id": oid[:24],
        "id": found.identity,
        "modelId": found.identity,
        "author": request.path_params["owner"],
        "sha": oid,
        "lastModified": newest["date"],
        "createdAt": found.commit(found.history(oid)[-1])["date"],
        "private": settings["private"],
        "gated": settings["gated"],
        "disabled": settings["disabled"],
        "downloads": 0,
        "likes": 0,
        "tags": tags,
        "siblings": siblings,
    }
    named = {key: card[key] for key in ("library_name", "pipeline_tag") if key in card}
    return JSONResponse(facts | named | ({"cardData": card} if card else {}))


def front_matter(readme: bytes) -> dict[str, Any]:
    """The YAML at the head of a model card; yaml.YAMLError if it is none."""
    match = re.match(r"---\s*\n(.*?\n)---\s*(\n|$)", readme.decode("utf-8-sig", "replace"), re.DOTALL)
    found = yaml.safe_load(match[1]) if match else None
    return found if isinstance(found, dict) else {}


async def validate_yaml(request: Request) -> Response:
    content = (await request.json())["content"]
    try:
        front_matter(content.encode())
    except yaml.YAMLError as error:
        return JSONResponse({"errors": [{"message": " ".join(str(error).split())}], "warnings": []}, 400)
    return JSONResponse({"errors": [], "warnings": []})


async def auth_check(request: Request) -> Response:
    repository(request, files=True)
    return JSONResponse({})


async def refs(request: Request) -> Response:
    found = repository(request)

    def listed(kind: Kind, prefix: str) -> list[dict[str, str]]:
        return [
            {"name": name, "ref": f"refs/{prefix}/{name}", "targetCommit": oid}
            for name, oid in found.refs(kind).items()
        ]

    return JSONResponse(
        {"branches": listed("branches", "heads"), "tags": listed("tags", "tags"), "converts": [], "pullRequests": []}
    )


async def commits(request: Request) -> Response:
    found = repository(request)
    oid = commit_of(found, text(request, "revision"))
    known = [(one, found.commit(one)) for one in found.history(oid)]
    author = [{"user": request.path_params["owner"]}]
    return JSONResponse(
        [
            {"id": one, "title": facts["title"], "message": facts["message"], "date": facts["date"], "authors": author}
            for one, facts in known
        ]
    )


async def branch(request: Request) -> Response:
    found, asked = repository(request, write=True), await request.json()
    name = text(request, "branch")
    return _new(found, "branches", name, commit_of(found, asked.get("startingPoint", "main")))


async def tag(request: Request) -> Response:
    found, asked = repository(request, write=True), await request.json()
    return _new(found, "tags", asked["tag"], commit_of(found, text(request, "revision")))


def _new(found: Repository, kind: Kind, name: str, oid: str) -> Response:
    with found.lock:
        if name in found.refs(kind):
            raise Refusal(409, f"Reference already exists: {name}")
        found.point(kind, name, oid)
    return Response(status_code=201)


async def delete_branch(request: Request) -> Response:
    return _gone(repository(request, write=True), "branches", text(request, "branch"))


async def delete_tag(request: Request) -> Response:
    return _gone(repository(request, write=True), "tags", text(request, "revision"))


def _gone(found: Repository, kind: Kind, name: str) -> Response:
    if name not in found.refs(kind):
        raise Refusal(404, f"Invalid rev id: {name}", "RevisionNotFound")
    if (kind, name) == ("branches", "main"):
        raise Refusal(403, "Cannot delete the main branch")
    found.point(kind, name, None)
    return Response(status_code=200)


ROUTES: tuple[tuple[str, str, str, Callable[..., Any]], ...] = (
    ("whoami", "GET", "/api/whoami-v2", whoami),
    ("create_repo", "POST", "/api/repos/create", create),
    ("delete_repo", "DELETE", "/api/repos/delete", delete),
    ("validate_yaml", "POST", "/api/validate-yaml", validate_yaml),
    ("repo_info", "GET", REPOSITORY, info),
    ("repo_info", "GET", REPOSITORY + "/revision/{revision}", info),
    ("auth_check", "GET", REPOSITORY + "/auth-check", auth_check),
    ("refs", "GET", REPOSITORY + "/refs", refs),
    ("commits", "GET", REPOSITORY + "/commits/{revision}", commits),
    ("branch", "POST", REPOSITORY + "/branch/{branch}", branch),
    ("delete_branch", "DELETE", REPOSITORY + "/branch/{branch}", delete_branch),
    ("tag", "POST", REPOSITORY + "/tag/{revision}", tag),
    ("delete_tag", "DELETE", REPOSITORY + "/tag/{revision}", delete_tag),
)

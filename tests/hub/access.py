"""Who asks, and what they may do: tokens, namespaces, private and gated repositories.

Answers as the Hub's: without a token a missing and a private repository look alike (401), with one too (404); a
gated one shows its metadata to everybody and its files to the accepted.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote

from starlette.requests import Request

from tests.hub.answers import Refusal
from tests.hub.repository import Repository


@dataclass(frozen=True)
class Account:
    """Who a token stands for; `write` tells whether it may change what its owner may change."""

    user: str
    write: bool
    organizations: tuple[str, ...] = ()

    @property
    def namespaces(self) -> tuple[str, ...]:
        return (self.user, *self.organizations)


class Library:
    """The repositories below `root`, and the accounts by token."""

    def __init__(self, root: Path, accounts: dict[str, Account]) -> None:
        self.root, self.accounts = root, accounts

    def folder(self, identity: str) -> Path:
        return self.root / "models" / identity

    def get(self, identity: str) -> Repository | None:
        """The repository OWNER/NAME, if it is there."""
        folder = self.folder(identity)
        return Repository(folder, identity) if (folder / "refs.json").is_file() else None

    def create(self, identity: str) -> Repository:
        """A new repository with its first commit."""
        self.folder(identity).mkdir(parents=True, exist_ok=True)
        return Repository(self.folder(identity), identity)


def library(request: Request) -> Library:
    """The server's repositories."""
    found: Library = request.app.state.holdings
    return found


def text(request: Request, name: str) -> str:
    """A parameter of the path, which is routed while it is still quoted: a branch may hold a slash."""
    return unquote(request.path_params[name])


def account(request: Request) -> Account | None:
    """Who asks; a token that nobody has is refused."""
    given = request.headers.get("authorization")
    if given is None:
        return None
    found = library(request).accounts.get(given.removeprefix("Bearer "))
    if found is None:
        raise Refusal(401, "Invalid credentials in Authorization header")
    return found


def repository(request: Request, *, write: bool = False, files: bool = False) -> Repository:
    """The repository of the path; refused unless the asker may read its metadata, its files, or write."""
    identity = f"{request.path_params['owner']}/{request.path_params['name']}"
    asker, found = account(request), library(request).get(identity)
    own = asker is not None and request.path_params["owner"] in asker.namespaces
    if found is None or (found.settings["private"] and not own):
        if asker is None:
            raise Refusal(401, "Invalid username or password.", "RepoNotFound")
        raise Refusal(404, "Repository not found", "RepoNotFound")
    if found.settings["disabled"]:
        raise Refusal(403, "Access to this resource is disabled.")
    if write:
        writable(asker, request.path_params["owner"])
    if files and found.settings["gated"] and not own:
        pass_gate(found, asker)
    return found


def writable(asker: Account | None, owner: str) -> Account:
    """The asker; refused unless the token may write in the namespace."""
    if asker is None:
        raise Refusal(401, "Invalid username or password.")
    if not asker.write or owner not in asker.namespaces:
        raise Refusal(403, "Forbidden: pass a token with write access to this namespace")
    return asker


def pass_gate(found: Repository, asker: Account | None) -> None:
    """Refused unless the asker was let through."""
    where = f"Access to model {found.identity} is restricted"
    if asker is None:
        message = f"{where}. You must have access to it and be authenticated to access it. Please log in."
        raise Refusal(401, message, "GatedRepo")
    if asker.user not in found.settings["accepted"]:
        raise Refusal(403, f"{where} and you are not in the authorized list.", "GatedRepo")


def commit_of(found: Repository, revision: str) -> str:
    """The commit that a revision names, or the refusal of one that does not exist."""
    oid = found.find(revision)
    if oid is None:
        raise Refusal(404, f"Invalid rev id: {revision}", "RevisionNotFound")
    return oid

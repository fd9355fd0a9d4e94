"""Trees of files: what a folder holds, what a commit holds, and what lies between them.

A file is compared by the digest that the Hub keeps of it: the sha256 of an LFS object, the git blob id of a small
file. `.gitattributes` is the Hub's own file: it writes it with a repository and with the first file of a new kind,
so no tree here has it.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Protocol

from ledger.errors import BadInput, GateFailed

OWN = ".gitattributes"
# What the library refuses to send, or the Hub to keep as it is.
_RESERVED = frozenset({OWN, ".git", ".cache"})
_CHUNK = 4 << 20


@dataclass(frozen=True)
class Entry:
    """A file of a commit; `digest` is "sha256:<hex>" for an LFS object, "blob:<hex>" for a small file."""

    bytes: int
    digest: str

    @property
    def large(self) -> bool:
        """Whether it is an LFS object."""
        return self.digest.startswith("sha256:")

    def matches(self, other: Entry) -> bool:
        """Whether both are one content kept in one way."""
        return self == other


@dataclass(frozen=True)
class LocalFile:
    """A file on this disk with both digests that the Hub may keep of it, in hex."""

    path: Path
    bytes: int
    sha256: str
    blob: str

    def matches(self, there: Entry) -> bool:
        """Whether the Hub's entry has this content."""
        return there in {Entry(self.bytes, f"sha256:{self.sha256}"), Entry(self.bytes, f"blob:{self.blob}")}


class Wanted(Protocol):
    """A file that a tree shall have."""

    @property
    def bytes(self) -> int: ...

    def matches(self, other: Entry, /) -> bool: ...


Tree = Mapping[str, Entry]


@dataclass(frozen=True)
class Difference:
    """The paths of two trees by what has become of them."""

    new: tuple[str, ...]
    changed: tuple[str, ...]
    deleted: tuple[str, ...]
    there: tuple[str, ...]

    def __bool__(self) -> bool:
        return bool(self.new or self.changed or self.deleted)

    @property
    def written(self) -> tuple[str, ...]:
        """What a commit has to write."""
        return (*self.new, *self.changed)


def difference(wanted: Mapping[str, Wanted], found: Tree) -> Difference:
    """What has to happen to `found` so that it holds exactly `wanted`; false when nothing has to."""
    both = sorted(wanted.keys() & found.keys())
    same = {path for path in both if wanted[path].matches(found[path])}
    return Difference(
        new=tuple(sorted(wanted.keys() - found.keys())),
        changed=tuple(path for path in both if path not in same),
        deleted=tuple(sorted(found.keys() - wanted.keys())),
        there=tuple(path for path in both if path in same),
    )


def read_folder(folder: Path) -> dict[str, LocalFile]:
    """Every file of `folder` by its path there, each read once.

    BadInput for a folder without files, for a link or anything else that is no file, and for a name that the Hub
    keeps for itself or cannot hold.
    """
    if not folder.is_dir():
        raise BadInput(f"{folder} is no folder; accepted: the folder of a release")
    found: dict[str, LocalFile] = {}
    for parent, names, files in os.walk(folder):
        for path in (Path(parent, name) for name in (*names, *files)):
            if path.is_symlink() or not (path.is_dir() or path.is_file()):
                raise BadInput(f"{path} is a link or no regular file; accepted: files and folders")
            if path.is_file():
                name = _name(folder, path)
                found[name] = local_file(path)
    if not found:
        raise BadInput(f"{folder} holds no file; accepted: the folder of a release")
    return dict(sorted(found.items()))


def local_file(path: Path) -> LocalFile:
    """`path` with its digests; OSError if it cannot be read."""
    size = path.stat().st_size
    sha256, blob = hashlib.sha256(), hashlib.sha1(f"blob {size}\0".encode(), usedforsecurity=False)
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK):
            sha256.update(chunk)
            blob.update(chunk)
    return LocalFile(path, size, sha256.hexdigest(), blob.hexdigest())


def check_remote(repo: str, path: str) -> None:
    """GateFailed for a path in a listing that would lead out of a folder."""
    if "\0" in path or "\\" in path or any(part in {"", ".", ".."} for part in path.split("/")):
        raise GateFailed(f"Hub repository {repo} lists the file {path!r}; accepted: a path inside of the repository")


def _name(folder: Path, path: Path) -> str:
    name = path.relative_to(folder).as_posix()
    try:
        name.encode()
    except UnicodeEncodeError:
        raise BadInput(f"{name!r} in {folder} is no name in UTF-8; accepted: names in UTF-8") from None
    reserved = _RESERVED.intersection(PurePosixPath(name).parts)
    if reserved:
        raise BadInput(
            f"{path}: {min(reserved)} is a name that the Hub keeps for itself; accepted: a release without it"
        )
    return name

"""The list of a release, and how the files of a folder are named and read."""

from __future__ import annotations

import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from ledger.errors import BadInput
from ledger.receipts import Ref, parse_model

LIST = "release.json"
FORMAT = 1
SIGNATURE = "model.sig"
PROVENANCE = "provenance.json"
IMAGES = "images.json"
SBOM = "sbom.cdx.json"
LICENCES = "licences"
# What signing adds to the folder that package laid out, and the list therefore does not name.
ADDED_BY_SIGNING = (IMAGES, PROVENANCE, SIGNATURE)
# What nobody may leave out of a release, whatever its variants are.
REQUIRED = ("LICENSE", "NOTICE", "README.md", SBOM, PROVENANCE)


class Listed(BaseModel):
    """`release.json`: every file of a release but the list itself and what signing adds."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    format: Literal[1] = 1
    name: str
    checkpoint: str
    revision: str
    latest: str
    variants: tuple[str, ...] = Field(min_length=1)
    files: dict[str, Ref]


def read_list(folder: Path) -> Listed:
    """The list of the release in `folder`; BadInput when there is none or it is damaged."""
    path = folder / LIST
    try:
        data = path.read_bytes()
    except OSError as error:
        raise BadInput(f"{path} cannot be read: {error.strerror}; accepted: a release folder") from None
    return parse_model(Listed, data, str(path))


def licence_path(name: object, version: object) -> str:
    """Where the licence text of a package is, in a release as beside an image."""
    return f"{LICENCES}/{name}-{version}.txt"


def walk(folder: Path) -> dict[str, Path]:
    """Everything in `folder` that is no folder, by its path with slashes, sorted; links are named, not followed."""
    return dict(sorted(_entries(folder)))


def _entries(folder: Path) -> Iterator[tuple[str, Path]]:
    # No recursion: a folder that somebody else made may be deeper than Python's stack.
    waiting = [("", folder)]
    while waiting:
        prefix, inner = waiting.pop()
        for path in inner.iterdir():
            if path.is_dir() and not path.is_symlink():
                waiting.append((f"{prefix}{path.name}/", path))
            else:
                yield f"{prefix}{path.name}", path


def is_plain(path: Path) -> bool:
    """Whether `path` is a regular file, and no link to one."""
    return stat.S_ISREG(path.lstat().st_mode)


def check_signable(folder: Path) -> None:
    """BadInput for what no signature can cover and nothing can publish: links, devices, names that are no text."""
    for name, path in walk(folder).items():
        if not is_plain(path) or not _is_text(name):
            raise BadInput(f"{str(path)!a} cannot be signed; accepted: regular files with names in UTF-8")


def _is_text(name: str) -> bool:
    # A name that is not UTF-8 reaches Python with surrogates in it.
    return not any("\ud800" <= letter <= "\udfff" for letter in name)

"""Blobs by digest, as every OCI layout holds them: `blobs/sha256/<hex>` below a folder.

A blob is whole or absent under its name, and nothing is flushed to the disk here: what a power cut may spoil, its name
tells. A layout is flushed when it is laid out.
"""

from __future__ import annotations

import os
import shutil
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ledger.atomic import make_folder, sweep
from ledger.digest import sha256_bytes, sha256_file
from ledger.errors import BadInput


class Blobs:
    """The blobs below `root`, which is made if it is not there. A digest is "sha256:<hex>"."""

    def __init__(self, root: Path) -> None:
        self.folder = root / "blobs" / "sha256"
        make_folder(self.folder)

    def path(self, digest: str) -> Path:
        """Where the blob is, or would be."""
        return self.folder / digest.removeprefix("sha256:")

    def intact(self, digest: str) -> bool:
        """Whether the blob is there and is what its name says, by reading it."""
        try:
            return f"sha256:{sha256_file(self.path(digest))}" == digest
        except FileNotFoundError:
            return False

    def read(self, digest: str) -> bytes:
        """A small blob's content; BadInput when it is missing or damaged."""
        path = self.path(digest)
        try:
            data = path.read_bytes()
        except OSError as error:
            raise BadInput(f"{path} cannot be read: {error.strerror}; accepted: the blob of that digest") from None
        if (found := f"sha256:{sha256_bytes(data)}") != digest:
            raise BadInput(f"{path} has digest {found}; accepted: {digest}")
        return data

    def put(self, data: bytes) -> str:
        """Keep `data`; its digest."""
        digest = f"sha256:{sha256_bytes(data)}"
        with self.aside() as aside:
            aside.write_bytes(data)
            aside.replace(self.path(digest))
        return digest

    @contextmanager
    def aside(self) -> Iterator[Path]:
        """A path to make a blob at and to rename it from; what is still there in the end is removed."""
        sweep(self.folder, ".*.tmp")
        path = self.folder / f".{uuid.uuid4().hex}.tmp"
        try:
            yield path
        finally:
            path.unlink(missing_ok=True)

    def lend(self, digest: str, other: Blobs) -> None:
        """Put the blob into `other` too: a hard link, or a copy where the file system has none."""
        if other.path(digest).exists():
            return
        with other.aside() as aside:
            try:
                os.link(self.path(digest), aside)
            except OSError:
                shutil.copyfile(self.path(digest), aside)
            aside.replace(other.path(digest))

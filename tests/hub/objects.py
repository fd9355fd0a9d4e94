"""The content of one repository on disk: git blobs by sha1, LFS objects by sha256, each whole or absent.

    blobs/<sha1>     regular files, named as git names them
    lfs/<sha256>     large files
    parts/<upload>/  what a multipart upload has sent so far

Departs from git: blobs are not packed or compressed.
"""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4


@dataclass(frozen=True)
class Entry:
    """A file of a commit: its git blob's id (of the pointer, for a large file), size in bytes, and LFS sha256."""

    oid: str
    size: int
    lfs: str | None = None

    def facts(self) -> dict[str, Any]:
        """As a JSON object."""
        return asdict(self)

    @property
    def pointer_size(self) -> int:
        """Bytes of the LFS pointer that stands for the file in git."""
        return len(pointer(self.lfs, self.size)) if self.lfs else 0


def blob_id(data: bytes) -> str:
    """The sha1 that git gives a blob of this content."""
    return hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()


def pointer(sha256: str, size: int) -> bytes:
    """What git itself keeps of a large file (https://github.com/git-lfs/git-lfs/blob/main/docs/spec.md)."""
    return f"version https://git-lfs.github.com/spec/v1\noid sha256:{sha256}\nsize {size}\n".encode()


class Objects:
    """The objects below `folder`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        for name in ("blobs", "lfs", "parts"):
            (folder / name).mkdir(parents=True, exist_ok=True)

    def keep(self, data: bytes) -> Entry:
        """Store a regular file."""
        entry = Entry(blob_id(data), len(data))
        with self._aside(self.folder / "blobs" / entry.oid) as path:
            path.write_bytes(data)
        return entry

    def large(self, sha256: str) -> Entry | None:
        """The entry of a large file that was uploaded before, or None."""
        path = self.folder / "lfs" / sha256
        if not path.is_file():
            return None
        size = path.stat().st_size
        return Entry(blob_id(pointer(sha256, size)), size, sha256)

    def path(self, entry: Entry) -> Path:
        """Where the file's own content lies."""
        return self.folder / "lfs" / entry.lfs if entry.lfs else self.folder / "blobs" / entry.oid

    async def receive(self, sha256: str, body: AsyncIterator[bytes]) -> bool:
        """Store the large file that `body` brings; False, and nothing kept, if it is another content."""
        digest = hashlib.sha256()
        with self._aside(self.folder / "lfs" / sha256) as path:
            with path.open("wb") as file:
                async for chunk in body:
                    digest.update(chunk)
                    file.write(chunk)
            if digest.hexdigest() != sha256:
                path.unlink()
        return digest.hexdigest() == sha256

    async def receive_part(self, upload: str, number: int, body: AsyncIterator[bytes]) -> str:
        """Store one part of an upload; returns its ETag, the md5 of the part."""
        digest = hashlib.md5()
        with self._aside(self._part(upload, number)) as path, path.open("wb") as file:
            async for chunk in body:
                digest.update(chunk)
                file.write(chunk)
        return digest.hexdigest()

    def complete(self, sha256: str, upload: str, etags: list[str]) -> bool:
        """Put the parts of an upload together; False, and nothing kept, unless they are the announced content."""
        digest = hashlib.sha256()
        with self._aside(self.folder / "lfs" / sha256) as path:
            with path.open("wb") as file:
                for number, etag in enumerate(etags, start=1):
                    part = self._part(upload, number)
                    data = part.read_bytes() if part.is_file() else b""
                    if hashlib.md5(data).hexdigest() != etag:
                        break
                    digest.update(data)
                    file.write(data)
            if digest.hexdigest() != sha256:
                path.unlink()
                return False
        shutil.rmtree(self.folder / "parts" / upload)
        return True

    def _part(self, upload: str, number: int) -> Path:
        folder = self.folder / "parts" / upload
        folder.mkdir(exist_ok=True)
        return folder / str(number)

    @contextmanager
    def _aside(self, final: Path) -> Iterator[Path]:
        path = final.with_name(f"{final.name}.{uuid4().hex}.tmp")
        try:
            yield path
            if path.exists():
                path.replace(final)
        finally:
            path.unlink(missing_ok=True)

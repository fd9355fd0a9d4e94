"""What is under names, in a folder or in a bucket: for the commands that look at a store as a whole."""

from __future__ import annotations

import os
import time
import uuid
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple, Protocol

from ledger.atomic import make_folder, sync, write_bytes


class Entry(NamedTuple):
    """A name, its size, and when it was written, in seconds since 1970."""

    name: str
    bytes: int
    written: float


class Holding(Protocol):
    """The names of a store and what is under them."""

    @property
    def location(self) -> str:
        """Where it is, as people write it."""

    def now(self) -> float:
        """The time by the clock that tells when an entry was written, in seconds since 1970."""

    def entries(self, under: str) -> Iterator[Entry]:
        """What has a name that begins with the folder `under`, in no order."""

    def size(self, name: str) -> int | None:
        """Bytes under a name, None when there is nothing."""

    def read(self, name: str) -> bytes | None:
        """The content, None when there is none."""

    def put(self, name: str, data: bytes) -> bool:
        """Write under a name that is free; False when it is not."""

    def discard(self, names: Iterable[str]) -> None:
        """Remove what is there of `names`."""

    def uploads(self, before: float) -> list[tuple[str, str]]:
        """Name and id of the uploads that were begun before a time and never ended."""

    def abort(self, uploads: Iterable[tuple[str, str]]) -> None:
        """Give up uploads, and free what they hold."""


class Folder:
    """The holding of a folder."""

    def __init__(self, root: Path) -> None:
        self._root = root

    @property
    def location(self) -> str:
        return str(self._root)

    def now(self) -> float:
        return time.time()

    def entries(self, under: str) -> Iterator[Entry]:
        for path in (self._root / under).rglob("*"):
            with suppress(FileNotFoundError):
                # A writer's file beside its final name begins with a dot.
                if path.is_file() and not path.name.startswith("."):
                    found = path.stat()
                    yield Entry(path.relative_to(self._root).as_posix(), found.st_size, found.st_mtime)

    def size(self, name: str) -> int | None:
        with suppress(FileNotFoundError):
            return (self._root / name).stat().st_size
        return None

    def read(self, name: str) -> bytes | None:
        with suppress(FileNotFoundError):
            return (self._root / name).read_bytes()
        return None

    def put(self, name: str, data: bytes) -> bool:
        path, aside = self._root / name, self._root / "tmp" / uuid.uuid4().hex
        write_bytes(aside, data)
        make_folder(path.parent)
        try:
            # Unlike a rename, a link does not take a name that somebody else has taken meanwhile.
            os.link(aside, path)
        except FileExistsError:
            return False
        finally:
            aside.unlink()
        sync(path.parent)
        return True

    def discard(self, names: Iterable[str]) -> None:
        for name in names:
            (self._root / name).unlink(missing_ok=True)

    def uploads(self, before: float) -> list[tuple[str, str]]:
        return []

    def abort(self, uploads: Iterable[tuple[str, str]]) -> None:
        pass

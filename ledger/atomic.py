"""Writes that are whole or absent: a kill at any moment leaves nothing half-written under a final name.

Write aside in the same folder (so the same filesystem), fsync the file, rename, fsync the folder. The
textbook stops at the rename; without the last fsync a power cut may undo a rename that a receipt already
relies on. What a killed writer leaves aside is named `.<final name>.<random>.tmp` and is removed by the
next writer of the same name once it is a day old: a younger one may belong to a writer that is still alive,
here or on another host.
"""

from __future__ import annotations

import errno
import glob
import json
import os
import shutil
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

_LEFTOVER_SECONDS = 24 * 3600


def write_bytes(path: Path, data: bytes) -> None:
    """Write `data` to `path`, whole or not at all; parent folders are made."""
    with replacing(path) as beside:
        beside.write_bytes(data)


def write_text(path: Path, text: str) -> None:
    """Write `text` as UTF-8, with its line endings as they are."""
    write_bytes(path, text.encode())


def write_json(path: Path, obj: Any) -> None:
    """Write `obj` as JSON for people: indented, keys sorted, newline at the end; NaN is a ValueError."""
    write_text(path, json.dumps(obj, indent=2, sort_keys=True, ensure_ascii=False, allow_nan=False) + "\n")


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Yield a path beside `path` to make a file or symlink at; on a clean exit it becomes `path`."""
    beside = _beside(path)
    try:
        yield beside
        sync(beside)
        beside.replace(path)
    except BaseException:
        beside.unlink(missing_ok=True)
        raise
    sync(path.parent)


@contextmanager
def replacing_folder(path: Path) -> Iterator[Path]:
    """Yield a new empty folder beside `path`; on a clean exit it becomes `path`.

    A rename cannot replace a folder that holds files, so an existing one is renamed aside first and removed
    last: a kill in between leaves no folder at `path`, never a mixture of both.
    """
    beside, old = _beside(path), _beside(path)
    beside.mkdir()
    try:
        yield beside
        _sync_tree(beside)
        while not _renamed(beside, path):
            # Once, unless another writer of the same folder came in between.
            shutil.rmtree(old, ignore_errors=True)
            with suppress(FileNotFoundError):
                path.rename(old)
    except BaseException:
        with suppress(OSError):
            old.rename(path)
        shutil.rmtree(beside, ignore_errors=True)
        raise
    sync(path.parent)
    shutil.rmtree(old, ignore_errors=True)


def make_folder(path: Path) -> None:
    """Make `path` and its missing parents so that they outlive a power cut."""
    missing = [folder for folder in (path, *path.parents) if not folder.exists()]
    path.mkdir(parents=True, exist_ok=True)
    for folder in missing:
        sync(folder.parent)


def sync(path: Path) -> None:
    """Flush a file's content, or a folder's list of names, to the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sweep(folder: Path, pattern: str = "*") -> None:
    """Remove what matches `pattern` in `folder` and was last written more than a day ago."""
    oldest = time.time() - _LEFTOVER_SECONDS
    for leftover in folder.glob(pattern):
        with suppress(FileNotFoundError):
            if leftover.lstat().st_mtime >= oldest:
                continue
            if leftover.is_dir() and not leftover.is_symlink():
                shutil.rmtree(leftover)
            else:
                leftover.unlink()


def _sync_tree(root: Path) -> None:
    for folder, _, names in os.walk(root, topdown=False):
        for path in (Path(folder, name) for name in names):
            # A link has no content of its own, and what it names may come later.
            if not path.is_symlink():
                sync(path)
        sync(Path(folder))


def _beside(path: Path) -> Path:
    make_folder(path.parent)
    sweep(path.parent, f".{glob.escape(path.name)}.*.tmp")
    return path.with_name(f".{path.name}.{uuid.uuid4().hex}.tmp")


def _renamed(source: Path, path: Path) -> bool:
    try:
        source.rename(path)
    except OSError as error:
        if error.errno not in {errno.ENOTEMPTY, errno.EEXIST}:
            raise
        return False
    return True

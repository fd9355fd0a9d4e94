"""Layers as a function of what is in them: equal files give equal bytes, wherever, whenever and by whomever written.

A member's owner is root, its time EPOCH, and its mode one of two, so neither umask nor build folder nor clock gets in;
members stand in the order of their paths; gzip carries no name and no time. The bytes of gzip also depend on the zlib
of the interpreter: the digest of the uncompressed layer (`diff_id`) does not, and tells layers of two machines equal.
"""

from __future__ import annotations

import hashlib
import io
import posixpath
import tarfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import IO, Any, Protocol

from pydantic import BaseModel, ConfigDict, ValidationError

from ledger.atomic import make_folder
from ledger.digest import digest_json, sha256_bytes
from ledger.errors import BadInput
from publish.image.blobs import Blobs

# Seconds; the first day that every archive format can spell.
EPOCH = 315_532_800
MEDIA_TYPE = "application/vnd.oci.image.layer.v1.tar+gzip"
_FORMAT = 1
_CHUNK = 1 << 20


class Squeeze(Enum):
    """Level and strategy of deflate.

    Tensors hold nothing that repeats: without a search for it bfloat16 comes out smaller than at level 6 (0.78 of its
    size against 0.79) in an eighth of the time.
    """

    CODE = (6, zlib.Z_DEFAULT_STRATEGY)
    TENSORS = (1, zlib.Z_HUFFMAN_ONLY)


class Readable(Protocol):
    """A member's content."""

    def read(self, size: int = -1, /) -> bytes:
        """The next bytes."""
        ...


Member = tuple[tarfile.TarInfo, Readable | None]


class Layer(BaseModel):
    """A layer's blob: digests of its gzip and of the tar in it, and the size of the first in bytes."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    digest: str
    diff_id: str
    bytes: int


@dataclass(frozen=True)
class File:
    """A file of a layer, by its path in the image without a leading slash; a link where `link` says to what."""

    path: str
    sha256: str = ""
    size: int = 0
    source: Path | bytes = b""
    executable: bool = False
    link: str = ""

    @classmethod
    def of(cls, path: str, data: bytes) -> File:
        """A file made of `data`."""
        return cls(path, sha256_bytes(data), len(data), data)


def layer_of(files: Sequence[File], cache: Path, squeeze: Squeeze = Squeeze.CODE) -> Layer:
    """The layer of `files`; from `cache` when it was made before and is intact.

    Raises BadInput when a source has not the digest that it was given with.
    """
    named = sorted((file.path, file.sha256, file.executable, file.link) for file in files)
    key = digest_json({"format": _FORMAT, "squeeze": squeeze.value, "zlib": zlib.ZLIB_RUNTIME_VERSION, "files": named})
    return cached(key, cache, lambda blobs: pack(_members(files), blobs, squeeze))


def cached(key: str, cache: Path, make: Callable[[Blobs], Layer]) -> Layer:
    """The layer recorded under `key`, else what `make(blobs)` gives, which is recorded."""
    record, blobs = cache / "layers" / f"{key}.json", Blobs(cache)
    try:
        layer = Layer.model_validate_json(record.read_bytes())
    except (OSError, ValidationError):
        layer = None
    if layer is None or not blobs.intact(layer.digest):
        layer = make(blobs)
        make_folder(record.parent)
        with blobs.aside() as aside:
            aside.write_text(layer.model_dump_json(), encoding="utf-8")
            aside.replace(record)
    return layer


def pack(members: Iterable[Member], blobs: Blobs, squeeze: Squeeze = Squeeze.CODE) -> Layer:
    """Write `members`, as they are and in their order, as one layer."""
    with blobs.aside() as aside:
        with aside.open("xb") as file:
            out = _Gzip(file, squeeze)
            with tarfile.TarFile(fileobj=out, mode="w", format=tarfile.PAX_FORMAT, copybufsize=_CHUNK) as tar:
                for info, content in members:
                    tar.addfile(info, content)
            out.finish()
        layer = Layer(digest=out.digest, diff_id=out.diff_id, bytes=aside.stat().st_size)
        aside.replace(blobs.path(layer.digest))
    return layer


class _Gzip(io.RawIOBase):
    """Compresses into `file` what is written, and hashes both sides."""

    def __init__(self, file: IO[bytes], squeeze: Squeeze) -> None:
        self._file = file
        level, strategy = squeeze.value
        # 16 + 15: a gzip header without name and time.
        self._deflate = zlib.compressobj(level, zlib.DEFLATED, 31, strategy=strategy)
        self._inner, self._outer = hashlib.sha256(), hashlib.sha256()
        self._bytes = 0

    def write(self, data: Any, /) -> int:
        self._inner.update(data)
        self._bytes += len(data)
        self._keep(self._deflate.compress(data))
        return len(data)

    def tell(self) -> int:
        return self._bytes

    def finish(self) -> None:
        """Write what the compressor still holds."""
        self._keep(self._deflate.flush())

    def _keep(self, squeezed: bytes) -> None:
        self._outer.update(squeezed)
        self._file.write(squeezed)

    @property
    def digest(self) -> str:
        return f"sha256:{self._outer.hexdigest()}"

    @property
    def diff_id(self) -> str:
        return f"sha256:{self._inner.hexdigest()}"


def normal(path: str, kind: bytes = tarfile.DIRTYPE, mode: int = 0o755) -> tarfile.TarInfo:
    """The head of a member that says nothing of where and when it was made."""
    info = tarfile.TarInfo(path)
    info.type, info.mode, info.mtime = kind, mode, EPOCH
    return info


def _members(files: Sequence[File]) -> Iterator[Member]:
    """Every file behind the folders that lead to it."""
    made: set[str] = set()
    for file in sorted(files, key=lambda one: one.path):
        for folder in _parents(file.path):
            if folder not in made:
                made.add(folder)
                yield normal(folder), None
        yield from _member(file)


def _member(file: File) -> Iterator[Member]:
    if file.link:
        info = normal(file.path, tarfile.SYMTYPE, 0o777)
        info.linkname = file.link
        yield info, None
        return
    info = normal(file.path, tarfile.REGTYPE, 0o755 if file.executable else 0o644)
    info.size = file.size
    with io.BytesIO(file.source) if isinstance(file.source, bytes) else file.source.open("rb") as raw:
        content = _Hashed(raw)
        whole = raw.seek(0, io.SEEK_END) == file.size
        raw.seek(0)
        if whole:
            yield info, content
        if not whole or content.hexdigest() != file.sha256:
            raise BadInput(f"{file.path} is not as it was listed; accepted: {file.size} bytes, sha256 {file.sha256}")


class _Hashed:
    """Hashes what is read of `raw`."""

    def __init__(self, raw: IO[bytes]) -> None:
        self._raw, self._hash = raw, hashlib.sha256()

    def read(self, size: int = -1, /) -> bytes:
        data = self._raw.read(size)
        self._hash.update(data)
        return data

    def hexdigest(self) -> str:
        return self._hash.hexdigest()


def _parents(path: str) -> list[str]:
    folders = []
    while path := posixpath.dirname(path):
        folders.append(path)
    return folders[::-1]

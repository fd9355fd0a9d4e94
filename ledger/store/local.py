"""A content-addressed store of build products and the record of what each action made, in a folder.

    objects/ab/abcdef...      read-only files named by the sha256 of their content
    actions/ab/<key>.json     the receipt of the run with that key
    asked/<stage>/<key>.json  what goes into that key, for people
    kept/<name>.json          what must not be collected (`python -m ledger.store keep`)
    tmp/                      writers at work; what killed ones left is swept a day later

Departs from the caches of git and Bazel: no packing and no locks. Two writers of the same content each
write aside and rename, and the last one stays: a fresh copy is known to be good, and one that was found is not.
"""

from __future__ import annotations

import errno
import hashlib
import io
import os
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ledger.atomic import make_folder, replacing, sweep, sync, write_json
from ledger.digest import canonical_json, parse_json, sha256_file
from ledger.errors import BadInput, FoundryError
from ledger.receipts import Receipt, Ref
from ledger.store.asked import Asked

if TYPE_CHECKING:
    from typing_extensions import Buffer

__all__ = ["Lost", "ObjectWriter", "Ref", "Store", "action_name", "object_name"]

_CHUNK = 4 << 20
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


class Lost(BadInput):
    """An object is missing or damaged: what makes it must run again."""


def object_name(ref: Ref) -> str:
    """The name of an object in a store."""
    return f"objects/{ref.sha256[:2]}/{ref.sha256}"


def action_name(key: str) -> str:
    """The name of the record of an action in a store."""
    return f"actions/{key[:2]}/{key}.json"


class ObjectWriter(io.RawIOBase):
    """A binary file for appending that hashes what is written; `ref` is set once it is in the store."""

    ref: Ref

    def __init__(self, path: Path) -> None:
        self._file = path.open("xb")
        self._hash = hashlib.sha256()
        self._bytes = 0

    def writable(self) -> bool:
        return True

    def write(self, data: Buffer, /) -> int:
        with memoryview(data) as view:
            self._file.write(view)
            self._hash.update(view)
            self._bytes += view.nbytes
            return view.nbytes

    def tell(self) -> int:
        return self._bytes

    def close(self) -> None:
        self._file.close()
        super().close()

    def seal(self) -> Ref:
        """Flush to the disk, make the file read-only and return its name."""
        self._file.flush()
        os.fchmod(self._file.fileno(), 0o444)
        os.fsync(self._file.fileno())
        self.close()
        return Ref(sha256=self._hash.hexdigest(), bytes=self._bytes)


class Store:
    """The store at `root`, which is made if it is not there. `flag` is what gives its folder."""

    flag = "--store"

    def __init__(self, root: Path) -> None:
        self.root = root
        for folder in ("objects", "actions", "tmp"):
            make_folder(root / folder)
        sweep(root / "tmp")

    @contextmanager
    def writer(self) -> Iterator[ObjectWriter]:
        """A file to stream one object into; on a clean exit it is in the store and `.ref` names it."""
        aside = self.root / "tmp" / uuid.uuid4().hex
        file = ObjectWriter(aside)
        try:
            with self._room():
                yield file
                ref = file.seal()
                self._keep(aside, ref)
        finally:
            with suppress(OSError):  # what a full disk did not take is lost with the file
                file.close()
            aside.unlink(missing_ok=True)
        file.ref = ref

    def put_file(self, src: Path) -> Ref:
        """Copy `src` in; BadInput if it is missing, unreadable or no file."""
        try:
            source = src.open("rb")
        except OSError as error:
            raise BadInput(f"{src} cannot be read: {error.strerror}; accepted: a readable file") from None
        with source, self.writer() as file:
            while chunk := source.read(_CHUNK):
                file.write(chunk)
        return file.ref

    def put_bytes(self, data: bytes) -> Ref:
        """Keep `data`."""
        with self.writer() as file:
            file.write(data)
        return file.ref

    def put_json(self, obj: Any) -> Ref:
        """Keep `obj` as canonical JSON."""
        return self.put_bytes(canonical_json(obj))

    def has(self, ref: Ref) -> bool:
        """Whether the object is there with the right size; its content is not read."""
        return self._size(ref) == ref.bytes

    def path(self, ref: Ref) -> Path:
        """Where the object is; BadInput if it is missing or has another size. Its content is not read."""
        path, size = self._object(ref), self._size(ref)
        if size is None:
            raise Lost(f"object {path} is missing from the store; run the stage that makes it again")
        if size != ref.bytes:
            raise Lost(f"object {path} has {size} bytes; accepted: {ref.bytes}; verify the store")
        return path

    def verify(self, ref: Ref) -> Path:
        """`path` with the content read and checked; a damaged object is removed before BadInput is raised."""
        path = self._object(ref)
        if found := self._damage(ref):
            raise Lost(f"object {path} has sha256 {found}, not its name, and is removed; run again to make it anew")
        return self.path(ref)

    def read_json(self, ref: Ref) -> Any:
        """The JSON value kept under `ref`, with its content checked."""
        path = self.verify(ref)
        return parse_json(path.read_bytes(), f"object {path}")

    def link(self, ref: Ref, dest: Path) -> None:
        """Make `dest` a relative symlink to the object, in place of the file or link that may be there."""
        target = self.path(ref).resolve()
        with replacing(dest) as beside:
            # A relative link counts from the folder that really holds it, not from the name it is reached by.
            beside.symlink_to(os.path.relpath(target, dest.parent.resolve()))

    def lay_out(self, files: Mapping[str, Ref], folder: Path, *, verify: bool = False) -> None:
        """Link `files`, by name, into `folder`; with `verify` the content of each is read and checked first."""
        for name, ref in files.items():
            if verify:
                self.verify(ref)
            make_folder((folder / name).parent)
            self.link(ref, folder / name)

    def find_action(self, key: str) -> Receipt | None:
        """The receipt recorded under `key` if everything it made is still here, else None.

        A damaged record counts as none: the action runs again and writes a good one.
        """
        path = self._action(key)
        try:
            receipt = Receipt.read(path)
        except BadInput:
            return None
        whole = all(self.has(ref) for ref in receipt.outputs.values())
        return receipt if whole and receipt.key == key and receipt.verdict != "failed" else None

    def record_action(self, receipt: Receipt, *, anew: bool = False) -> Receipt:
        """Record `receipt` under its key and return what is recorded; here that is `receipt`.

        In a store that many share, who was first with that key wins, unless the record is to be made `anew`.
        ValueError for a failed run, BadInput if an output is not here.
        """
        if receipt.verdict == "failed":
            raise ValueError(f"{receipt.stage}: a failed run is never recorded")
        self._require(receipt)
        receipt.write(self._action(receipt.key))
        return receipt

    def share(self, receipt: Receipt) -> None:
        """See to it that all who share the store find what `receipt` made, and its record, which may have been lost.

        BadInput if an output is nowhere.
        """
        self._require(receipt)
        if not self._action(receipt.key).is_file():
            receipt.write(self._action(receipt.key))

    def ask(self, asked: Asked) -> None:
        """Keep what a stage is asked, for `python -m ledger.store why`."""
        write_json(self.root / asked.name, asked.model_dump(mode="json"))

    def _require(self, receipt: Receipt) -> None:
        for ref in receipt.outputs.values():
            self.path(ref)

    @contextmanager
    def _room(self) -> Iterator[None]:
        """A full disk, as a sentence that names this folder."""
        try:
            yield
        except OSError as error:
            if error.errno not in _FULL:
                raise
            raise FoundryError(
                f"{self.flag} {self.root}: {error.strerror}; accepted: a folder with room for what is built"
            ) from None

    def _damage(self, ref: Ref) -> str | None:
        """The sha256 of an object that is not what its name says, which is removed; None for a good one, or none."""
        path = self._object(ref)
        if self._size(ref) is None or (found := sha256_file(path)) == ref.sha256:
            return None
        path.unlink(missing_ok=True)
        return found

    def _keep(self, aside: Path, ref: Ref) -> None:
        final = self._object(ref)
        make_folder(final.parent)
        # Over what may be there, which may be damaged at the right size. Readers keep the file they opened.
        aside.replace(final)
        sync(final.parent)

    def _size(self, ref: Ref) -> int | None:
        try:
            return self._object(ref).stat().st_size
        except FileNotFoundError:
            return None

    def _object(self, ref: Ref) -> Path:
        return self.root / object_name(ref)

    def _action(self, key: str) -> Path:
        return self.root / action_name(key)

"""A folder of this machine with a bucket behind it, which other machines fill too.

Stages work on files: they map them, link them and hand them to compilers. So reading brings an object into the folder,
checked on the way. What a stage is asked is written to the bucket when it begins, so that no collection takes away what
it works on, and what it made only if it succeeded: its objects, and last its record. A record is there with all that it
names, or not at all.

Two builders of one key: who records first wins, and the other one takes that record for its own. A record whose objects
are gone or damaged is none, and is replaced by the next run with that key.

How damage is found: an object is compared with its name whenever it comes from the bucket, and removed there if it is
another. What a found action made comes at once up to AT_ONCE bytes an object, and damage makes the action run again. Of
larger ones (weights, checkpoints) only the size is looked at until a stage wants them, so that a machine downloads no
more than it uses; a damaged one then ends that stage, and the next run makes it anew.
"""

from __future__ import annotations

import fcntl
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import NoReturn

from ledger.atomic import sync
from ledger.digest import canonical_json, sha256_file
from ledger.errors import BadInput, FoundryError
from ledger.receipts import Receipt, Ref
from ledger.store.asked import Asked, asked_name
from ledger.store.local import Lost, Store, action_name, object_name
from ledger.store.remote import Bucket, Version

AT_ONCE = 16 << 20
_THREADS = 8
_TRIES = 5


class SharedStore(Store):
    """The store in `bucket`, used through the folder `root`."""

    flag = "--cache"

    def __init__(self, root: Path, bucket: Bucket) -> None:
        super().__init__(root)
        self.bucket = bucket

    def has(self, ref: Ref) -> bool:
        """Whether the object is here or in the bucket, with the right size; its content is not read."""
        return super().has(ref) or self.bucket.size(object_name(ref)) == ref.bytes

    def path(self, ref: Ref) -> Path:
        """Where the object is in the folder, once it is there; BadInput if it is nowhere, or damaged."""
        if not super().has(ref):
            self._bring(ref)
        return super().path(ref)

    def verify(self, ref: Ref) -> Path:
        """`path` with the content read and checked; a damaged copy is removed and comes again from the bucket."""
        self._damage(ref)
        return self.path(ref)

    def find_action(self, key: str) -> Receipt | None:
        """The receipt that is recorded under `key` if all it made is there, else None.

        One that only the folder has is brought to the bucket.
        """
        version = self.bucket.version(action_name(key))
        if version and (receipt := self._usable(version, key)):
            receipt.write(self._action(key))
            return receipt
        if (found := super().find_action(key)) is None:
            return None
        try:
            self._upload_asked(found)
            return self._publish(found, anew=False)
        except Lost:
            return None

    def record_action(self, receipt: Receipt, *, anew: bool = False) -> Receipt:
        """Record `receipt` here and in the bucket; returns what is recorded, which may be another builder's."""
        super().record_action(receipt)
        return self._publish(receipt, anew=anew)

    def share(self, receipt: Receipt) -> None:
        """Bring to the bucket what only the folder has of all that `receipt` made, and its record.

        BadInput if an output is nowhere.
        """
        self._upload_all(receipt)
        if self.bucket.size(action_name(receipt.key)) is None:
            self._upload_asked(receipt)
            self._record(receipt, anew=False)

    def ask(self, asked: Asked) -> None:
        """Keep what a stage is asked, here and in the bucket, as of now: old questions are collected."""
        super().ask(asked)
        data = canonical_json(asked.model_dump(mode="json"))
        for _ in range(_TRIES):
            standing = self.bucket.head(asked.name)
            if self.bucket.put(asked.name, data, over=standing.tag if standing else None):
                return
        # Others ask the same all the time, so it is young.

    def _publish(self, receipt: Receipt, *, anew: bool) -> Receipt:
        self._upload_all(receipt)
        recorded = self._record(receipt, anew=anew)
        # An old object that was there may have been collected before the record spoke for it.
        if recorded is receipt:
            self._upload_all(receipt)
        return recorded

    def _record(self, receipt: Receipt, *, anew: bool) -> Receipt:
        name, data = action_name(receipt.key), canonical_json(receipt.model_dump(mode="json"))
        for _ in range(_TRIES):
            version = self.bucket.version(name)
            if version and (standing := self._usable(version, receipt.key)):
                if not anew:
                    standing.write(self._action(receipt.key))
                    return standing
                if standing.digest == receipt.digest:
                    return receipt
            if self.bucket.put(name, data, over=version.tag if version else None):
                return receipt
        raise FoundryError(f"{self.bucket.location}/{name} is written by others all the time; run again")

    def _usable(self, version: Version, key: str) -> Receipt | None:
        """The receipt in a record of the bucket, None when it is damaged or something that it made is."""
        try:
            receipt = Receipt.parse(version.data, action_name(key))
        except BadInput:
            return None
        if receipt.key != key or receipt.verdict == "failed":
            return None
        try:
            with ThreadPoolExecutor(_THREADS) as pool:
                whole = all(pool.map(self._reach, set(receipt.outputs.values())))
        except Lost:
            return None
        return receipt if whole else None

    def _reach(self, ref: Ref) -> bool:
        """Whether an object can be had; a small one is here afterwards. Lost for one that is damaged."""
        if ref.bytes <= AT_ONCE:
            self.path(ref)
        return self.has(ref)

    def _upload_all(self, receipt: Receipt) -> None:
        with ThreadPoolExecutor(_THREADS) as pool:
            list(pool.map(self._upload, set(receipt.outputs.values())))

    def _upload(self, ref: Ref) -> None:
        name = object_name(ref)
        for _ in range(_TRIES):
            there = self.bucket.head(name)
            if there and there.bytes == ref.bytes:
                return
            if there:
                self.bucket.remove(name, there.tag)
            if self.bucket.put_file(name, super().verify(ref)):
                return
        raise FoundryError(f"{self.bucket.location}/{name} is written by others all the time; run again")

    def _upload_asked(self, receipt: Receipt) -> None:
        path = self.root / asked_name(receipt.stage, receipt.key)
        if path.is_file():
            self.bucket.put(asked_name(receipt.stage, receipt.key), path.read_bytes())

    def _bring(self, ref: Ref) -> None:
        """Bring an object into the folder, if the bucket has it; Lost for one that is damaged."""
        name, aside = object_name(ref), self.root / "tmp" / uuid.uuid4().hex
        with self._alone(ref):
            if super().has(ref):
                return
            try:
                with self._room():
                    if (tag := self.bucket.fetch(name, aside)) is None:
                        return
                    if (found := sha256_file(aside)) != ref.sha256:
                        self._drop(name, tag, found)
                    aside.chmod(0o444)
                    sync(aside)
                    self._keep(aside, ref)
            finally:
                aside.unlink(missing_ok=True)

    def _drop(self, name: str, tag: str, found: str) -> NoReturn:
        """Remove a damaged object from the bucket, if that is allowed, and raise Lost."""
        what = f"object {self.bucket.location}/{name} has sha256 {found}, not its name, and"
        try:
            self.bucket.remove(name, tag)
        except FoundryError as error:
            raise Lost(f"{what} stays: {error}") from None
        raise Lost(f"{what} is removed; run again to make it anew")

    @contextmanager
    def _alone(self, ref: Ref) -> Iterator[None]:
        """One download of an object at a time: the others on this machine wait for it. Ends with the process."""
        path = self.root / "tmp" / f"{ref.sha256}.lock"
        with path.open("a") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            try:
                yield
            finally:
                path.unlink(missing_ok=True)

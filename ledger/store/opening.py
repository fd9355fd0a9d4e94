"""The store that a location names, and its holdings for commands that look at it as a whole."""

from __future__ import annotations

from pathlib import Path

from ledger.errors import BadInput
from ledger.flags import CACHE, check_folder
from ledger.location import bucket_of
from ledger.store.holding import Folder, Holding
from ledger.store.local import Store


def open_store(location: str | Path, cache: str | Path = CACHE, *, flag: str = "--store") -> Store:
    """The store in the folder `location`, or at s3://BUCKET/PREFIX, read and written through the folder `cache`.

    BadInput names `flag` for a location that is neither, or cannot be reached.
    """
    there = _bucket(location, flag)
    if there is None:
        check_folder(flag, location)
        return Store(Path(location))
    # boto3 takes half a second to import, which nobody should pay who has a folder.
    from ledger.store.remote import Bucket
    from ledger.store.shared import SharedStore

    check_folder(flag.replace("store", "cache"), cache)
    return SharedStore(Path(cache), Bucket(*there))


def open_holding(location: str, flag: str = "--store") -> Holding:
    """What is in the store at `location`; BadInput for a folder that is not there."""
    there = _bucket(location, flag)
    if there is None:
        if not Path(location).is_dir():
            raise BadInput(f"{flag} {location} is no folder; accepted: a store that is there")
        return Folder(Path(location))
    from ledger.store.remote import Bucket

    return Bucket(*there)


def _bucket(location: str | Path, flag: str) -> tuple[str, str] | None:
    try:
        return bucket_of(str(location))
    except ValueError as error:
        raise BadInput(f"{flag}: {error}") from None

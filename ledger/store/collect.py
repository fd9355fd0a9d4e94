"""What no kept release needs, and its removal.

Reached is what the kept receipts made, what they were made from, and so on: a receipt names the digests of its inputs'
receipts, and every record with such a digest counts. Whatever is younger than a time of grace stays, and with it what
young records name, as somebody may be at work on it. Records go before objects, so that no record speaks of what is
gone. A builder who finds an old record at the very moment when it goes makes it anew.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any

from ledger.errors import BadInput
from ledger.receipts import Receipt
from ledger.store.asked import FOLDER as ASKED
from ledger.store.holding import Entry, Holding
from ledger.store.kept import Kept
from ledger.store.local import object_name

_THREADS = 16


@dataclass(frozen=True)
class Garbage:
    """What may go, and how much stays."""

    seen: frozenset[str]  # every record there was
    records: list[Entry]
    asked: list[Entry]
    objects: list[Entry]
    uploads: list[tuple[str, str]]
    staying: list[Entry]

    def summary(self) -> dict[str, Any]:
        """Counts and bytes, for `--json`."""
        return {
            "records": len(self.records),
            "asked": len(self.asked),
            "objects": len(self.objects),
            "bytes": sum(entry.bytes for entry in self.objects),
            "uploads": len(self.uploads),
            "staying_objects": len(self.staying),
            "staying_bytes": sum(entry.bytes for entry in self.staying),
        }


def find(holding: Holding, kept: Iterable[Kept], before: float) -> Garbage:
    """What was written before a time (seconds since 1970) and is not reached from `kept`."""
    # Objects first: what is recorded while this looks names objects that are younger, or are found by the second look.
    objects, records = list(holding.entries("objects")), list(holding.entries("actions"))
    receipts = _read(holding, records)
    roots = [receipt for one in kept for receipt in one.receipts.values()]
    roots += [receipts[entry.name] for entry in records if entry.name in receipts and entry.written >= before]
    reached, live = _reached(roots, receipts)
    lost = [one for one in records if one.name not in receipts or receipts[one.name].digest not in reached]
    return Garbage(
        seen=frozenset(entry.name for entry in records),
        records=[one for one in lost if one.written < before and _stem(one) not in reached],
        asked=[one for one in holding.entries(ASKED) if one.written < before and _stem(one) not in reached],
        objects=[one for one in objects if one.written < before and one.name not in live],
        uploads=holding.uploads(before),
        staying=[one for one in objects if one.written >= before or one.name in live],
    )


def remove(holding: Holding, garbage: Garbage) -> None:
    """Remove it, but for objects that a record names which came since."""
    holding.discard(entry.name for entry in [*garbage.records, *garbage.asked])
    since = [entry for entry in holding.entries("actions") if entry.name not in garbage.seen]
    named = {object_name(ref) for receipt in _read(holding, since).values() for ref in receipt.outputs.values()}
    holding.discard(entry.name for entry in garbage.objects if entry.name not in named)
    holding.abort(garbage.uploads)


def _read(holding: Holding, records: Iterable[Entry]) -> dict[str, Receipt]:
    """The receipts of records, by name; without those that are damaged, or gone by now."""

    def read(entry: Entry) -> tuple[str, Receipt] | None:
        try:
            data = holding.read(entry.name)
            return (entry.name, Receipt.parse(data, entry.name)) if data else None
        except BadInput:
            return None

    with ThreadPoolExecutor(_THREADS) as pool:
        return dict(filter(None, pool.map(read, records)))


def _reached(roots: list[Receipt], records: Mapping[str, Receipt]) -> tuple[set[str], set[str]]:
    """Digests and keys of the receipts that `roots` lead to, and the names of the objects of all of them."""
    index: dict[str, list[Receipt]] = defaultdict(list)
    for receipt in records.values():
        index[receipt.digest].append(receipt)
        index[receipt.key].append(receipt)
    reached: set[str] = set()
    objects: set[str] = set()
    waiting = list(roots)
    while waiting:
        receipt = waiting.pop()
        objects |= {object_name(ref) for ref in receipt.outputs.values()}
        for name in {receipt.digest, receipt.key, *receipt.inputs.values()} - reached:
            reached.add(name)
            waiting += index[name]
    return reached, objects


def _stem(entry: Entry) -> str:
    return PurePosixPath(entry.name).stem

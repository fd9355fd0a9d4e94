"""What no kept release needs, and its removal.

Reached is what the kept receipts made, what they were made from, and so on: a receipt names the digests of its inputs'
receipts, and every record with such a digest counts. Whatever is younger than a time of grace stays, and with it what
young records and young questions name, as somebody may be at work on it. A kept release with a gap ends the collection
before anything is removed: what lies behind a record that cannot be read is not known.

Records go before objects, so that no record speaks of what is gone, and questions last. Others work meanwhile, so a
removal looks at what was kept, asked and recorded since twice: before the records go, and before the objects go. What
was written anew since it was found stays. A record that somebody kept or asked for in between is put back; who keeps
later finds it gone (see kept.py).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import PurePosixPath
from typing import Any

from ledger.digest import canonical_json
from ledger.errors import BadInput
from ledger.receipts import Receipt
from ledger.store import chain
from ledger.store.asked import FOLDER as ASKED
from ledger.store.asked import Asked
from ledger.store.holding import Entry, Holding
from ledger.store.kept import Kept, all_kept

_ACTIONS = "actions"
_MENDED = "run that stage again, which records it anew, or forget the release"


@dataclass(frozen=True)
class Garbage:
    """What may go, and how much stays."""

    seen: frozenset[Entry]  # every record and question there was
    receipts: Mapping[str, Receipt]
    records: list[Entry]
    asked: list[Entry]
    objects: list[Entry]
    uploads: list[tuple[str, str]]
    staying: list[Entry]

    @property
    def is_of_nothing(self) -> bool:
        """Whether nothing was found at all, as under a prefix that was mistyped."""
        return not (self.seen or self.objects or self.staying or self.uploads)

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
    """What was written before a time (seconds since 1970) and is not reached from `kept`.

    BadInput when what a kept receipt was made from cannot be told.
    """
    # Objects first: what is recorded while this looks names objects that are younger, or are found by a later look.
    objects, records, asked = (list(chain.entries(holding, folder)) for folder in ("objects", _ACTIONS, ASKED))
    receipts = chain.read(holding, records, Receipt.parse)
    held = {f"kept receipt {path}": receipt for one in kept for path, receipt in one.receipts.items()}
    sizes = {one.name: one.bytes for one in objects}
    for path, receipt in held.items():
        if label := chain.missing(receipt, sizes):
            raise BadInput(f"{path}: its output {label} is missing from {holding.location}; accepted: {_MENDED}")
    chain.check_whole(holding, held, chain.whole([*receipts.values(), *held.values()], sizes), _MENDED)
    young = [receipts[one.name] for one in records if one.written >= before and one.name in receipts]
    questions = [one for one in asked if one.written >= before]
    reached, live = _reached(holding, [*held.values(), *young], questions, receipts)
    return Garbage(
        seen=frozenset([*records, *asked]),
        receipts=receipts,
        records=[one for one in records if one.written < before and _key(one) not in reached],
        asked=[one for one in asked if one.written < before and _key(one) not in reached],
        objects=[one for one in objects if one.written < before and one.name not in live],
        uploads=[one for one in holding.uploads(before) if chain.is_name(one[0])],
        staying=[one for one in objects if one.written >= before or one.name in live],
    )


def remove(holding: Holding, garbage: Garbage) -> Garbage:
    """Remove it, but for what has come to be needed since, or was written anew; returns what went."""
    reached, _ = _since(holding, garbage)
    records = _standing(holding, _ACTIONS, (one for one in garbage.records if _key(one) not in reached))
    holding.discard(entry.name for entry in records)
    reached, live = _since(holding, garbage)
    back = {one for one in records if _key(one) in reached and one.name in garbage.receipts}
    for one in back:
        holding.put(one.name, canonical_json(garbage.receipts[one.name].model_dump(mode="json")))
    objects = _standing(holding, "objects", (one for one in garbage.objects if one.name not in live))
    holding.discard(entry.name for entry in objects)
    # Last, as what a stage works on is known from its question.
    asked = _standing(holding, ASKED, (one for one in garbage.asked if _key(one) not in reached))
    holding.discard(entry.name for entry in asked)
    holding.abort(garbage.uploads)
    return replace(
        garbage,
        records=[one for one in records if one not in back],
        asked=asked,
        objects=objects,
        staying=[*garbage.staying, *set(garbage.objects).difference(objects)],
    )


def _standing(holding: Holding, folder: str, entries: Iterable[Entry]) -> list[Entry]:
    """Those that are still there as they were found."""
    there = set(chain.entries(holding, folder))
    return [entry for entry in entries if entry in there]


def _since(holding: Holding, garbage: Garbage) -> tuple[set[str], set[str]]:
    """What is reached from all that is kept by now, and from what was asked and recorded since."""
    records, questions = (
        [entry for entry in chain.entries(holding, folder) if entry not in garbage.seen] for folder in (_ACTIONS, ASKED)
    )
    held = [receipt for one in all_kept(holding).values() for receipt in one.receipts.values()]
    recorded = chain.read(holding, records, Receipt.parse).values()
    return _reached(holding, [*held, *recorded], questions, garbage.receipts)


def _reached(
    holding: Holding, held: Sequence[Receipt], asked: Iterable[Entry], receipts: Mapping[str, Receipt]
) -> tuple[set[str], set[str]]:
    """Digests and keys, and names of objects, that lead from receipts that are needed and from somebody's questions."""
    questions = chain.read(holding, asked, Asked.parse).values()
    needed = {name for one in questions for name in (one.key, *one.inputs.values())}
    return chain.reached(needed | {one.digest for one in held}, [*receipts.values(), *held])


def _key(entry: Entry) -> str:
    return PurePosixPath(entry.name).stem

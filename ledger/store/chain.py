"""The records of a store as a graph: a receipt names the digests of the receipts that it was made from."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from ledger.errors import BadInput
from ledger.receipts import Receipt
from ledger.store.asked import Asked, asked_name
from ledger.store.holding import Entry, Holding
from ledger.store.local import action_name, object_name

T = TypeVar("T", Receipt, Asked)
Index = Mapping[str, list[Receipt]]

_THREADS = 16
_NAME = re.compile(
    r"objects/([0-9a-f]{2})/\1[0-9a-f]{62}"
    r"|actions/([0-9a-f]{2})/\2[0-9a-f]{62}\.json"
    r"|asked/[A-Za-z0-9_-]+/[0-9a-f]{64}\.json"
)


def is_name(name: str) -> bool:
    """Whether a store gives such a name; whatever else lies in its folders is somebody else's."""
    return _NAME.fullmatch(name) is not None


def entries(holding: Holding, folder: str) -> Iterator[Entry]:
    """What is in a folder of the store, by the names that a store gives."""
    return (entry for entry in holding.entries(folder) if is_name(entry.name))


def read(holding: Holding, found: Iterable[Entry], parse: Callable[[bytes, str], T]) -> dict[str, T]:
    """What is recorded under names; without what is damaged, or gone by now. What cannot be read is an error."""

    def one(entry: Entry) -> tuple[str, T] | None:
        if (data := holding.read(entry.name)) is None:
            return None
        try:
            value = parse(data, entry.name)
        except BadInput:
            return None
        return (entry.name, value) if entry.name.endswith(f"/{value.key}.json") else None

    with ThreadPoolExecutor(_THREADS) as pool:
        return dict(filter(None, pool.map(one, found)))


def by_digest(receipts: Iterable[Receipt]) -> Index:
    """Receipts by what followers key on; runs that made the same share a digest."""
    index = defaultdict(list)
    for receipt in receipts:
        index[receipt.digest].append(receipt)
    return index


def whole(receipts: Iterable[Receipt], sizes: Mapping[str, int]) -> list[Receipt]:
    """Those whose objects are all there; `sizes` has the bytes of each object by its name."""
    return [one for one in receipts if missing(one, sizes) is None]


def missing(receipt: Receipt, sizes: Mapping[str, int]) -> str | None:
    """An output that is not there, or cut short."""
    found = (label for label, ref in receipt.outputs.items() if sizes.get(object_name(ref)) != ref.bytes)
    return next(found, None)


def reached(roots: Iterable[str], receipts: Iterable[Receipt]) -> tuple[set[str], set[str]]:
    """Digests and keys of the receipts that the digests `roots` lead to, and the names of all their objects."""
    index = defaultdict(list)
    for receipt in receipts:
        index[receipt.digest].append(receipt)
        index[receipt.key].append(receipt)
    found, objects, waiting = set[str](), set[str](), list(roots)
    while waiting:
        if (name := waiting.pop()) in found:
            continue
        found.add(name)
        for receipt in index.get(name, ()):
            objects |= {object_name(ref) for ref in receipt.outputs.values()}
            waiting += [receipt.digest, receipt.key, *receipt.inputs.values()]
    return found, objects


def check_whole(holding: Holding, receipts: Mapping[str, Receipt], known: Iterable[Receipt], accepted: str) -> None:
    """BadInput that names the record when `receipts` (by path) were made from what is not `known`, at any distance.

    Runs that made the same are as good as each other: one of them must be whole.
    """
    index, gaps = by_digest(known), dict[str, str | None]()
    for path, receipt in receipts.items():
        if gap := _gap(holding, receipt, index, gaps):
            raise BadInput(f"{path}: {gap}; accepted: {accepted}")


def _gap(holding: Holding, receipt: Receipt, index: Index, gaps: dict[str, str | None]) -> str | None:
    """What is missing of all that a receipt was made from."""
    if (run := f"{receipt.key} {receipt.digest}") in gaps:
        return gaps[run]
    gaps[run] = None
    for label, digest in receipt.inputs.items():
        inner = [_gap(holding, one, index, gaps) for one in index.get(digest, ())]
        if all(inner):
            gaps[run] = inner[0] if inner else _sentence(holding, receipt, label)
            break
    return gaps[run]


def _sentence(holding: Holding, receipt: Receipt, label: str) -> str:
    name = f"record with the digest {receipt.inputs[label]}"
    data = holding.read(asked_name(receipt.stage, receipt.key))
    try:
        key = Asked.parse(data, "").input_keys.get(label) if data else None
    except BadInput:
        key = None
    name = f"record {action_name(key)}" if key else name
    return (
        f"{receipt.stage} {receipt.key[:12]} was made from {label}, and the {name} is missing from {holding.location}, "
        "damaged, without all that it made, or made anew with other results"
    )

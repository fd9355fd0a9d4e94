"""What must not be collected: the receipts of releases that somebody keeps, by name.

A record holds the receipts themselves, so that it stays true whatever becomes of the folder that they came from.

A collection may be at work at the same time. It looks at what is kept before records go and before objects go, so
whoever keeps something looks at the records and objects again afterwards: either the collection sees what is kept, or
the one who keeps sees that a record is gone.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from pydantic import BaseModel, ConfigDict

from ledger.digest import canonical_json
from ledger.errors import BadInput
from ledger.receipts import Receipt, parse_model
from ledger.store import chain
from ledger.store.holding import Holding

FOLDER = "kept"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_RECEIPTS = "receipts"
_WHOLE = "receipts of runs whose whole line this store holds: run them again with it"


class Kept(BaseModel):
    """Receipts by the path they had."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    receipts: dict[str, Receipt]


def all_kept(holding: Holding) -> dict[str, Kept]:
    """Every kept release by name; BadInput for a record that is damaged, as what it kept is then not known."""
    found = {}
    for name in _names(holding):
        if (data := holding.read(path := _path(name))) is None:
            continue
        try:
            found[name] = parse_model(Kept, data, f"{holding.location}/{path}")
        except BadInput as error:
            raise BadInput(f"{error}; keep {name} again, or forget it") from None
    return found


def keep(holding: Holding, name: str, paths: Iterable[Path]) -> Kept:
    """Keep the receipts at `paths` as `name`.

    BadInput when the store lacks what they made or were made from, or `name` is taken.
    """
    path = _path(name)
    kept = Kept(receipts=dict(sorted(_receipts(paths))))
    _check(holding, kept.receipts)
    data = canonical_json(kept.model_dump(mode="json"))
    if (standing := holding.read(path)) is not None:
        try:
            parse_model(Kept, standing, path)
        except BadInput:
            holding.discard([path])  # it keeps nothing
    mine = holding.put(path, data)
    if not mine and holding.read(path) != data:
        raise BadInput(
            f"NAME is {name!r}, which is kept with other receipts; accepted: another name, or forget it first"
        )
    try:
        _check(holding, kept.receipts)
    except BadInput:
        if mine:
            holding.discard([path])
        raise
    return kept


def forget(holding: Holding, name: str) -> None:
    """Keep `name` no longer; BadInput when it is not kept."""
    path, names = _path(name), _names(holding)
    if name not in names:
        raise BadInput(f"NAME is {name!r}, which is not kept; accepted: {', '.join(names) or 'none is'}")
    holding.discard([path])


def _names(holding: Holding) -> list[str]:
    files = (entry.name.removeprefix(f"{FOLDER}/") for entry in holding.entries(FOLDER))
    names = (file.removesuffix(".json") for file in files if file.endswith(".json"))
    return sorted(name for name in names if _NAME.fullmatch(name))


def _path(name: str) -> str:
    if not _NAME.fullmatch(name):
        raise BadInput(f"NAME is {name!r}; accepted: up to 64 letters, digits and . _ -")
    return f"{FOLDER}/{name}.json"


def _receipts(paths: Iterable[Path]) -> Iterator[tuple[str, Receipt]]:
    for path in paths:
        if not path.is_dir():
            yield path.as_posix(), _sound(path)
            continue
        found = [file for file in path.rglob("*.json") if _RECEIPTS in file.parts and ".failed" not in file.suffixes]
        if not found:
            raise BadInput(f"{path} has no receipts in it; accepted: a receipt, or a folder with a folder {_RECEIPTS}")
        for file in found:
            yield file.as_posix(), _sound(file)


def _sound(path: Path) -> Receipt:
    receipt = Receipt.read(path)
    if receipt.verdict == "failed":
        raise BadInput(f"{path} says failed; accepted: receipts that are done or passed")
    return receipt


def _check(holding: Holding, receipts: Mapping[str, Receipt]) -> None:
    """BadInput when a receipt is not recorded, or anything on the way to it, with all its objects there."""
    # Records first, as a collection removes them first.
    records = chain.read(holding, chain.entries(holding, "actions"), Receipt.parse).values()
    there = {entry.name: entry.bytes for entry in chain.entries(holding, "objects")}
    for path, receipt in receipts.items():
        if label := chain.missing(receipt, there):
            raise BadInput(
                f"{path}: its output {label} is not in this store; accepted: receipts of what the store holds"
            )
    whole = chain.whole(records, there)
    recorded = chain.by_digest(whole)
    for path, receipt in receipts.items():
        if receipt.digest not in recorded:
            raise BadInput(f"{path}: {holding.location} has no record of it; accepted: {_WHOLE}")
    chain.check_whole(holding, receipts, whole, _WHOLE)

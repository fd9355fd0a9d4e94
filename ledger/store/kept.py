"""What must not be collected: the receipts of releases that somebody keeps, by name.

A record holds the receipts themselves, so that it stays true whatever becomes of the folder that they came from.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path, PurePosixPath

from pydantic import BaseModel, ConfigDict, ValidationError

from ledger.digest import canonical_json
from ledger.errors import BadInput, explain
from ledger.receipts import Receipt
from ledger.store.holding import Holding
from ledger.store.local import object_name

FOLDER = "kept"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_RECEIPTS = "receipts"


class Kept(BaseModel):
    """Receipts by the path they had."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    receipts: dict[str, Receipt]


def all_kept(holding: Holding) -> dict[str, Kept]:
    """Every kept release by name; BadInput for a record that is damaged, as what it kept is then not known."""
    found = {}
    for entry in holding.entries(FOLDER):
        data = holding.read(entry.name)
        if data is None:
            continue
        try:
            found[PurePosixPath(entry.name).stem] = Kept.model_validate_json(data)
        except ValidationError as error:
            raise BadInput(f"{explain(error, entry.name, Kept)}; keep that release again") from None
    return dict(sorted(found.items()))


def keep(holding: Holding, name: str, paths: Iterable[Path]) -> Kept:
    """Keep the receipts at `paths` as `name`; BadInput when the store lacks what they made, or `name` is taken."""
    if not _NAME.fullmatch(name):
        raise BadInput(f"NAME is {name!r}; accepted: up to 64 letters, digits and . _ -")
    kept = Kept(receipts=dict(sorted(_receipts(paths))))
    _check(holding, kept.receipts)
    data = canonical_json(kept.model_dump(mode="json"))
    path = f"{FOLDER}/{name}.json"
    if not holding.put(path, data) and holding.read(path) != data:
        raise BadInput(
            f"NAME is {name!r}, which is kept with other receipts; accepted: another name, or forget it first"
        )
    return kept


def forget(holding: Holding, name: str) -> None:
    """Keep `name` no longer; BadInput when it is not kept."""
    names = all_kept(holding)
    if name not in names:
        raise BadInput(f"NAME is {name!r}, which is not kept; accepted: {', '.join(names) or 'none is'}")
    holding.discard([f"{FOLDER}/{name}.json"])


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
    there = {entry.name: entry.bytes for entry in holding.entries("objects")}
    for path, receipt in receipts.items():
        for label, ref in receipt.outputs.items():
            if there.get(object_name(ref)) != ref.bytes:
                raise BadInput(
                    f"{path}: its output {label} is not in this store; accepted: receipts of what the store holds"
                )

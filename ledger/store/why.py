"""Why a stage was built: what it was asked, beside the nearest question that has a recorded answer.

A key is a digest and cannot tell what went into it; `asked/` can. Nearest is first what was asked for the same receipt,
as a neighbour in the matrix differs by what makes it a neighbour, then what differs in the fewest fields, then what was
recorded last.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import Any

from ledger.errors import BadInput
from ledger.receipts import Receipt
from ledger.store.asked import FOLDER, Asked, asked_name
from ledger.store.holding import Holding
from ledger.store.local import action_name, object_name

ABSENT = "absent"
_ACCEPTED = "the digits (0-9, a-f) after `building`, four or more and up to 64, or the path of a receipt"
_THREADS = 16
_KEY = re.compile(r"[0-9a-f]{4,64}")
_LONGEST = 80


@dataclass(frozen=True)
class Difference:
    """A field of two questions; `because` tells of the differing run behind an input, or of files of the source.

    Of an input `key` is that of the run behind it now, if it is known: what to ask why next.
    """

    field: str
    was: Any
    now: Any
    because: tuple[Difference, ...] = ()
    key: str | None = None


@dataclass(frozen=True)
class Answer:
    """What is known of a key: its state in the store, and how it differs from the nearest recorded one, if any is."""

    asked: Asked
    state: str
    entries: int
    nearest: Asked | None
    recorded: float
    differences: tuple[Difference, ...]


class Library:
    """The questions and records of a store; the first of `holdings` that has a name tells what is under it."""

    def __init__(self, holdings: Sequence[Holding]) -> None:
        self._holdings = holdings
        self._asked = _first(holdings, FOLDER)
        self._recorded = {_key(name): written for name, written in _first(holdings, "actions").items()}

    def answer(self, wanted: str) -> Answer:
        """Why the run `wanted` (part of a key, or a receipt's path) found nothing; BadInput when nobody asked it."""
        asked = self._find(wanted)
        since = self._asked.get(asked.name, float("inf"))
        others = [name for name in self._asked if name.startswith(f"{FOLDER}/{asked.stage}/") and name != asked.name]
        recorded = [name for name in others if _key(name) in self._recorded]
        # What came later was not there to be found.
        earlier = [name for name in recorded if self._recorded[_key(name)] <= since] or recorded
        with ThreadPoolExecutor(_THREADS) as pool:
            candidates = [one for one in pool.map(self._read, earlier) if one]
        ranked = [
            (one.place != asked.place, len(_differences(one, asked)), -self._recorded[one.key], one.key, one)
            for one in candidates
        ]
        nearest = min(ranked)[-1] if ranked else None
        return Answer(
            asked=asked,
            state=self._state(asked.key),
            entries=len(candidates),
            nearest=nearest,
            recorded=self._recorded[nearest.key] if nearest else 0.0,
            differences=tuple(self._explained(nearest, asked)) if nearest else (),
        )

    def _find(self, wanted: str) -> Asked:
        if _is_file(wanted):
            receipt = Receipt.read(Path(wanted))
            known = receipt.model_dump(include={"key", "stage", "recipe", "inputs", "toolchain", "source"})
            return self._read(asked_name(receipt.stage, receipt.key)) or Asked.model_validate(known)
        fits = [name for name in self._asked if _key(name).startswith(wanted)]
        if not _KEY.fullmatch(wanted):
            raise BadInput(
                f"KEY is {_shown(wanted)}, which is neither digits of a key nor a file; accepted: {_ACCEPTED}"
            )
        if not fits:
            raise BadInput(f"KEY is {wanted!r}, which no stage was asked for; accepted: {_ACCEPTED}")
        if len(fits) > 1:
            raise BadInput(f"KEY is {wanted!r}, and {len(fits)} keys begin so; accepted: more of its digits")
        if (asked := self._read(fits[0])) is None:
            raise BadInput(f"KEY is {wanted!r}, and {fits[0]} is damaged; accepted: {_ACCEPTED}")
        return asked

    def _read(self, name: str) -> Asked | None:
        for holding in self._holdings:
            if data := holding.read(name):
                with suppress(BadInput):
                    asked = Asked.parse(data, name)
                    if asked.name == name:
                        return asked
        return None

    def _state(self, key: str) -> str:
        if key not in self._recorded:
            return "is not recorded"
        data = next(filter(None, (holding.read(action_name(key)) for holding in self._holdings)), b"")
        try:
            outputs = Receipt.parse(data, key).outputs
        except BadInput:
            return "is recorded, and its record is damaged"
        for label, ref in outputs.items():
            if all(holding.size(object_name(ref)) != ref.bytes for holding in self._holdings):
                return f"is recorded, and its output {label} is missing from the store or cut short"
        return "is recorded by now"

    def _explained(self, was: Asked, now: Asked) -> Iterator[Difference]:
        """The differences, with what is behind an input: one level up, as further ones have keys of their own."""
        for one in _differences(was, now):
            area, _, label = one.field.partition(".")
            keys = [asked.input_keys.get(label) for asked in (was, now)]
            if area != "inputs" or None in keys:
                yield one
                continue
            stage = label.split("/")
            before, after = (self._input(stage, key) for key in keys)
            because = tuple(_differences(before, after)) if before and after else ()
            if before and after and before.key == after.key:
                because = (Difference("outputs", "made once", "made again, with other bytes"),)
            yield replace(one, because=because)

    def _input(self, stages: Sequence[str], key: str | None) -> Asked | None:
        found = (self._read(asked_name(stage, str(key))) for stage in stages)
        return next(filter(None, found), None)


def _first(holdings: Sequence[Holding], folder: str) -> dict[str, float]:
    """When each name of a folder was written, in the holding that had it first."""
    found: dict[str, float] = {}
    for entry in (entry for holding in holdings for entry in holding.entries(folder)):
        found[entry.name] = min(entry.written, found.get(entry.name, entry.written))
    return found


def _is_file(path: str) -> bool:
    with suppress(OSError, ValueError):  # too long for a path, or not to be looked at
        return Path(path).is_file()
    return False


def _shown(text: str) -> str:
    return repr(text if len(text) <= _LONGEST else f"{text[:_LONGEST]}...")


def _key(name: str) -> str:
    return PurePosixPath(name).stem


def _differences(was: Asked, now: Asked) -> list[Difference]:
    before, after = _fields(was), _fields(now)
    fields = [name for name in dict.fromkeys([*before, *after]) if before.get(name, ABSENT) != after.get(name, ABSENT)]
    found = [Difference(name, before.get(name, ABSENT), after.get(name, ABSENT)) for name in fields]
    if was.source != now.source:
        names = sorted(was.files.keys() | now.files.keys())
        pairs = [(name, was.files.get(name, ABSENT), now.files.get(name, ABSENT)) for name in names]
        files = tuple(Difference(name, old, new) for name, old, new in pairs if old != new)
        found.append(Difference("source", was.source, now.source, files))
    return [replace(one, key=now.input_keys.get(one.field.removeprefix("inputs."))) for one in found]


def _fields(asked: Asked) -> dict[str, Any]:
    """The leaves of all that goes into a key, by dotted name, but for the source."""
    found: dict[str, Any] = {}
    areas = {"recipe": asked.recipe, "inputs": asked.inputs, "toolchain": asked.toolchain}
    waiting: list[tuple[str, Any]] = list(reversed(areas.items()))
    while waiting:
        name, value = waiting.pop()
        if isinstance(value, Mapping) and value:
            waiting += reversed([(f"{name}.{key}", inner) for key, inner in value.items()])
        else:
            found[name] = value
    return found

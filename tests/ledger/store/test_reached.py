"""Over drawn lines of records: a collection leaves exactly what a walk over numbers of the test's own reaches."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator

from hypothesis import given, settings
from hypothesis import strategies as st

from ledger.receipts import Receipt, Ref
from ledger.store import collect
from ledger.store.holding import Entry, Folder
from ledger.store.kept import Kept

Edges = list[tuple[list[int], list[int]]]


@settings(max_examples=200)
@given(data=st.data(), count=st.integers(1, 8))
def test_exactly_what_is_reached_stays(data: st.DataObject, count: int) -> None:
    """Records are numbered; each has inputs among the earlier ones and outputs among a few objects."""
    lines: Edges = [
        (
            data.draw(st.lists(st.integers(0, number - 1), unique=True, max_size=3) if number else st.just([])),
            data.draw(st.lists(st.integers(0, 5), unique=True, max_size=3)),
        )
        for number in range(count)
    ]
    roots = data.draw(st.lists(st.integers(0, count - 1), unique=True, max_size=3))
    live, waiting = set[int](), list(roots)
    while waiting:
        number = waiting.pop()
        if number not in live:
            live.add(number)
            waiting += lines[number][0]
    found, left = remaining(lines, roots)
    assert found == live
    assert left == {output for number in live for output in lines[number][1]}


class Memory(Folder):
    """A holding that no disk slows down."""

    def __init__(self) -> None:
        self.there: dict[str, bytes] = {}

    def entries(self, under: str) -> Iterator[Entry]:
        yield from (Entry(name, len(data), 0) for name, data in self.there.items() if name.startswith(f"{under}/"))

    def read(self, name: str) -> bytes | None:
        return self.there.get(name)

    def discard(self, names: Iterable[str]) -> None:
        for name in names:
            del self.there[name]


def remaining(lines: Edges, roots: list[int]) -> tuple[set[int], set[int]]:
    """Numbers of records and of objects that a collection leaves."""
    holding, receipts, objects = Memory(), list[Receipt](), dict[str, int]()
    for number, (inputs, outputs) in enumerate(lines):
        refs = {str(one): Ref(sha256=hashlib.sha256(bytes([one])).hexdigest(), bytes=1) for one in outputs}
        objects |= {f"objects/{ref.sha256[:2]}/{ref.sha256}": int(one) for one, ref in refs.items()}
        receipts.append(
            Receipt(
                stage="lower",
                key=f"{number:064x}",
                recipe={},
                inputs={str(one): receipts[one].digest for one in inputs},
                outputs=refs,
                facts={"number": number},
                measured={},
                toolchain={},
                source="",
                verdict="done",
            )
        )
        holding.there[f"actions/00/{receipts[-1].key}.json"] = receipts[-1].model_dump_json().encode()
    holding.there |= dict.fromkeys(objects, b"1")
    keep = [Kept(receipts={str(root): receipts[root]}) for root in roots]
    collect.remove(holding, collect.find(holding, keep, float("inf")))
    found = {number for number in range(len(lines)) if f"actions/00/{number:064x}.json" in holding.there}
    return found, {objects[name] for name in holding.there if name in objects}

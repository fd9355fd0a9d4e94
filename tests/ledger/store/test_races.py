"""A collection and somebody else's work at the same moment: what is kept, built or recorded meanwhile is whole."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier
from typing import Any

import pytest

from ledger.errors import BadInput
from ledger.receipts import Receipt
from ledger.store import Store, collect, kept
from ledger.store.asked import Asked
from ledger.store.holding import Entry, Folder
from ledger.store.local import object_name
from ledger.store.opening import open_holding
from tests.ledger.conftest import MakeReceipt
from tests.ledger.store.conftest import Machine, Raw
from tests.ledger.store.line import Line, built, collected, names

ALL = float("inf")
Printed = pytest.CaptureFixture[str]


def test_what_is_kept_since_the_collection_looked_stays(either: Line) -> None:
    built(either, "512-128")
    holding, before = open_holding(either.store), names(either)
    garbage = collect.find(holding, [], ALL)
    kept.keep(holding, "v1", [either.receipt("compile", "512-128")])
    collect.remove(holding, garbage)
    assert names(either) == before


class Interrupted(Folder):
    """A folder in which somebody does something just before or after the first removal."""

    def __init__(self, root: Path, between: Callable[[], object], *, first: bool) -> None:
        super().__init__(root)
        self.left, self.first = [between], first

    def discard(self, names: Iterable[str]) -> None:
        if self.first and self.left:
            self.left.pop()()
        super().discard(names)
        if self.left:
            self.left.pop()()


def test_what_is_kept_just_before_the_records_go_is_put_back(line: Line) -> None:
    built(line, "512-128")
    root = line.folder / "store"
    records, objects = ({name for name in names(line) if name.startswith(folder)} for folder in ("actions", "objects"))
    holding = Interrupted(root, lambda: kept.keep(Folder(root), "v1", [line.receipt("compile", "512-128")]), first=True)
    asked = {name for name in names(line) if name.startswith("asked")}
    collect.remove(holding, collect.find(holding, [], ALL))
    assert names(line) == records | objects | asked
    assert Store(root).find_action(Receipt.read(line.receipt("compile", "512-128")).key)
    line.command("forget", "v1")
    line.command("keep", "v2", str(line.receipt("compile", "512-128")))


def test_what_is_kept_once_the_records_are_gone_is_refused(line: Line) -> None:
    built(line, "512-128")
    root, said = line.folder / "store", list[str]()

    def keep() -> None:
        with pytest.raises(BadInput) as caught:
            kept.keep(Folder(root), "v1", [line.receipt(name, "512-128") for name in ("lower", "compile")])
        said.append(str(caught.value))

    holding = Interrupted(root, keep, first=False)
    collect.remove(holding, collect.find(holding, [], ALL))
    assert said == [
        f"{line.receipt('compile', '512-128')}: {root} has no record of it; accepted: receipts of runs whose whole "
        "line this store holds: run them again with it"
    ]
    assert list(kept.all_kept(holding)) == []


def test_who_keeps_looks_again_and_takes_it_back(line: Line, monkeypatch: pytest.MonkeyPatch) -> None:
    built(line, "512-128")
    holding = Folder(line.folder / "store")
    put = holding.put

    def put_and_lose(name: str, data: bytes) -> bool:
        holding.discard(entry.name for entry in list(holding.entries("actions")))
        return put(name, data)

    monkeypatch.setattr(holding, "put", put_and_lose)
    with pytest.raises(BadInput, match="has no record of it"):
        kept.keep(holding, "v1", [line.receipt("compile", "512-128")])
    assert list(holding.entries("kept")) == []


def test_of_two_who_keep_other_things_by_one_name_one_is_told(line: Line) -> None:
    line.lower("a", n=1)
    line.lower("b", n=2)
    holding, both = Folder(line.folder / "store"), Barrier(2)

    def put(data: bytes) -> bool:
        both.wait()
        return holding.put("kept/v1.json", data)

    for _ in range(50):
        with ThreadPoolExecutor(2) as pool:
            told = list(pool.map(put, (b"a", b"b")))
        assert sorted(told) == [False, True]
        assert holding.read("kept/v1.json") == (b"a" if told[0] else b"b")
        holding.discard(["kept/v1.json"])
    assert list((line.folder / "store/tmp").iterdir()) == []


def test_a_name_that_is_taken_at_the_last_moment_stays_as_it_is(line: Line, monkeypatch: pytest.MonkeyPatch) -> None:
    line.lower("a", n=1)
    line.lower("b", n=2)
    first, second = Folder(line.folder / "store"), Folder(line.folder / "store")
    put = second.put

    def put_too_late(name: str, data: bytes) -> bool:
        kept.keep(first, "v1", [line.receipt("lower", "a")])
        return put(name, data)

    monkeypatch.setattr(second, "put", put_too_late)
    with pytest.raises(BadInput, match="which is kept with other receipts"):
        kept.keep(second, "v1", [line.receipt("lower", "b")])
    assert list(kept.all_kept(first)["v1"].receipts) == [str(line.receipt("lower", "a"))]


def test_an_object_that_is_collected_before_its_record_comes_again(
    machine: Machine, raw: Raw, make_receipt: MakeReceipt, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, two = machine("one"), machine("two")
    one.record_action(make_receipt(key="cd" * 32, inputs={}, outputs={"graph": one.put_bytes(b"same")}))
    garbage = collect.find(one.bucket, [], ALL)
    assert len(garbage.objects) == 1
    put = two.bucket.put

    def put_once_it_is_collected(name: str, data: bytes, **over: Any) -> bool:
        if name.startswith("actions/"):
            collect.remove(one.bucket, garbage)
        return put(name, data, **over)

    monkeypatch.setattr(two.bucket, "put", put_once_it_is_collected)
    receipt = make_receipt(inputs={}, outputs={"graph": two.put_bytes(b"same")})
    assert two.record_action(receipt) == receipt
    assert len(raw.names("objects")) == 1
    assert machine("three").find_action(receipt.key) == receipt


def test_what_a_running_stage_was_given_stays_however_old(line: Line, capsys: Printed) -> None:
    lower = line.lower("512-128")
    line.lower("256-64", other=True)
    for path in (line.folder / "store").rglob("*.json"):
        os.utime(path, (0, 0))
    for path in (line.folder / "store/objects").glob("*/*"):
        os.utime(path, (0, 0))
    Store(line.folder / "store").ask(question(lower))
    found = collected(line, capsys, "--delete", "--keep-nothing")
    assert (found["records"], found["objects"]) == (1, 1)
    assert Store(line.folder / "store").find_action(lower.key) == lower


def test_a_stage_that_begins_while_records_go_finds_what_it_was_given(line: Line) -> None:
    lower = line.lower("512-128")
    root = line.folder / "store"
    holding = Interrupted(root, lambda: Store(root).ask(question(lower)), first=True)
    collect.remove(holding, collect.find(holding, [], ALL))
    assert Store(root).find_action(lower.key) == lower


def test_a_question_that_is_renewed_while_records_go_is_as_good_as_a_new_one(line: Line) -> None:
    lower, root = line.lower("512-128"), line.folder / "store"
    Store(root).ask(question(lower))
    for path in root.rglob("*"):
        if path.is_file():
            os.utime(path, (0, 0))
    holding = Interrupted(root, lambda: Store(root).ask(question(lower)), first=True)
    removed = collect.remove(holding, collect.find(holding, [], 1))
    assert Store(root).find_action(lower.key) == lower
    assert (root / question(lower).name).exists()
    assert (removed.records, removed.objects, removed.asked) == ([], [], [])


def test_what_is_written_anew_while_records_go_stays(line: Line) -> None:
    lower, root = line.lower("512-128"), line.folder / "store"
    for path in root.rglob("*"):
        if path.is_file():
            os.utime(path, (0, 0))
    garbage = collect.find(Folder(root), [], 1)
    assert (len(garbage.records), len(garbage.objects)) == (1, 1)

    class Anew(Folder):
        """In which the record and its object are written again just before each removal."""

        def entries(self, under: str) -> Iterator[Entry]:
            Store(root).record_action(lower)
            (root / object_name(lower.outputs["graph"])).touch()
            return super().entries(under)

    removed = collect.remove(Anew(root), garbage)
    assert (removed.records, removed.objects) == ([], [])
    assert Store(root).find_action(lower.key) == lower


def question(given: Receipt) -> Asked:
    return Asked(key="cd" * 32, stage="compile", recipe={}, inputs={"lower": given.digest}, toolchain={}, source="")


def test_a_question_is_in_the_bucket_when_the_stage_begins_and_is_new_each_time(
    machine: Machine, raw: Raw, make_receipt: MakeReceipt, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, asked = machine("one"), question(make_receipt())
    overs: list[str | None] = []
    put = one.bucket.put

    def spy(name: str, data: bytes, *, over: str | None = None) -> bool:
        overs.append(over)
        return put(name, data, over=over)

    monkeypatch.setattr(one.bucket, "put", spy)
    one.ask(asked)
    assert Asked.model_validate_json(raw.get(asked.name)) == asked
    one.ask(asked)
    assert overs[0] is None
    assert overs[1] is not None, "written again, and so as young as the run"

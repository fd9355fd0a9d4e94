"""Collecting: what goes, what stays and what is said."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ledger.errors import BadInput
from ledger.receipts import Receipt
from ledger.store import Store, collect
from ledger.store.holding import Folder
from ledger.store.kept import Kept
from ledger.store.local import object_name
from ledger.store.opening import open_holding
from tests.ledger.conftest import MakeReceipt
from tests.ledger.store.conftest import Machine, Raw
from tests.ledger.store.line import NOW, Line, built, collected, names

Printed = pytest.CaptureFixture[str]


def test_what_no_kept_release_needs_goes(either: Line, capsys: Printed) -> None:
    built(either, "512-128")
    needed = names(either)
    built(either, "256-64")
    everything = names(either)
    either.command("keep", "v1", str(either.receipt("compile", "512-128")))
    assert capsys.readouterr().out.endswith("kept v1: 1 receipts, and what they were made from\n")

    found = collected(either, capsys, *NOW)
    assert not found["deleted"]
    assert (found["kept"], found["records"], found["asked"], found["objects"]) == (["v1"], 2, 2, 2)
    assert names(either) == everything
    assert collected(either, capsys, *NOW, "--delete") == found | {"deleted": True}
    assert names(either) == needed
    assert collected(either, capsys, *NOW)["records"] == 0

    either.lower("512-128", of="512-128")
    either.compile("512-128")
    printed = capsys.readouterr().out
    assert [line.split(" (")[0] for line in printed.splitlines()] == ["lower: unchanged", "compile: unchanged"]
    either.command("forget", "v1")
    assert collected(either, capsys, *NOW, "--delete", "--keep-nothing")["records"] == 2
    assert names(either) == set()


def test_lines_for_people(line: Line, capsys: Printed) -> None:
    built(line, "512-128")
    capsys.readouterr()
    line.command("collect")
    size = sum(path.stat().st_size for path in (line.folder / "store/objects").glob("*/*"))
    assert capsys.readouterr().out.splitlines() == [
        f"kept: nothing; 2 objects stay ({size} B)",
        "would remove, with --delete: 0 records, 0 questions, 0 objects (0 B), 0 uploads that never ended",
    ]


def test_nothing_is_deleted_while_nothing_is_kept(line: Line) -> None:
    built(line, "512-128")
    before = names(line)
    with pytest.raises(BadInput) as caught:
        line.command("collect", "--delete", *NOW)
    assert str(caught.value) == (
        "--delete, and nothing is kept in this store; accepted: `keep` a release before it, or --keep-nothing too"
    )
    assert names(line) == before


def test_what_is_young_stays_with_all_that_it_names(line: Line, capsys: Printed) -> None:
    built(line, "old", "young")
    for path in (line.folder / "store").rglob("*"):
        if path.is_file():
            os.utime(path, (0, 0))
    young = line.compile("young")
    record = line.folder / f"store/actions/{young.key[:2]}/{young.key}.json"
    os.utime(record)
    line.command("keep", "v1", str(line.receipt("lower", "old")))
    found = collected(line, capsys, "--delete")
    assert (found["records"], found["objects"]) == (1, 1), "compile of old, which nothing leads to"
    assert record.exists()
    assert Store(line.folder / "store").find_action(young.key) is not None
    assert Store(line.folder / "store").find_action(line.lower("young", of="young").key) is not None


@pytest.mark.usefixtures("bucket")
def test_a_place_where_nothing_is_may_be_a_slip(either: Line, capsys: Printed) -> None:
    if "://" not in either.store:
        Path(either.store).mkdir()
    assert either.command("collect") == 0
    assert (
        capsys.readouterr().out == f"{either.store} holds nothing: no store yet, or another location than was meant\n"
    )
    assert collected(either, capsys)["staying_objects"] == 0


def test_uploads_that_never_ended_are_aborted(line: Line, raw: Raw, capsys: Printed) -> None:
    line.store = f"s3://{raw.bucket}/foundry"
    built(line, "512-128")
    line.command("keep", "v1", str(line.receipt("compile", "512-128")))
    raw.client.create_multipart_upload(Bucket=raw.bucket, Key=f"foundry/objects/ab/{'ab' * 32}")
    others = ["foundry/objects/ab/abc", "somebody/else"]
    for other in others:
        raw.client.create_multipart_upload(Bucket=raw.bucket, Key=other)
    # moto says of any upload that it was begun in 2010.
    assert collected(line, capsys)["uploads"] == 1
    assert collected(line, capsys, "--delete")["uploads"] == 1
    left = raw.client.list_multipart_uploads(Bucket=raw.bucket)["Uploads"]
    assert sorted(one["Key"] for one in left) == others


def test_an_object_that_is_recorded_meanwhile_is_spared(tmp_path: Path, make_receipt: MakeReceipt) -> None:
    store, holding = Store(tmp_path), Folder(tmp_path)
    shared, lone = store.put_bytes(b"shared"), store.put_bytes(b"lone")
    garbage = collect.find(holding, [], float("inf"))
    assert len(garbage.objects) == 2
    receipt = make_receipt(outputs={"graph": shared})
    store.record_action(receipt)
    collect.remove(holding, garbage)
    assert store.find_action(receipt.key) == receipt
    assert not store.has(lone)


def test_records_go_before_objects(tmp_path: Path, make_receipt: MakeReceipt, monkeypatch: pytest.MonkeyPatch) -> None:
    store, holding = Store(tmp_path), Folder(tmp_path)
    store.record_action(make_receipt(outputs={"graph": store.put_bytes(b"one")}))
    garbage, order = collect.find(holding, [], float("inf")), list[str]()
    monkeypatch.setattr(holding, "discard", lambda names: order.extend(name.split("/")[0] for name in names))
    collect.remove(holding, garbage)
    assert order == ["actions", "objects"]


def test_a_damaged_record_goes_when_it_is_old(tmp_path: Path, make_receipt: MakeReceipt) -> None:
    Store(tmp_path).record_action(make_receipt())
    (path,) = (tmp_path / "actions").glob("*/*")
    path.write_text("{")
    assert collect.find(Folder(tmp_path), [], 0).records == []
    assert len(collect.find(Folder(tmp_path), [], float("inf")).records) == 1


def test_a_kept_receipt_keeps_the_record_that_took_its_place(tmp_path: Path, make_receipt: MakeReceipt) -> None:
    store = Store(tmp_path)
    was = make_receipt(inputs={}, outputs={"manifest": store.put_bytes(b"was")})
    now = make_receipt(inputs={}, outputs={"manifest": store.put_bytes(b"now")})
    store.record_action(now)
    garbage = collect.find(Folder(tmp_path), [Kept(receipts={"a": was})], float("inf"))
    assert garbage.records == garbage.objects == []


@pytest.mark.parametrize("damage", [b"{", None, b"other"])
def test_a_gap_in_a_kept_line_deletes_nothing(either: Line, damage: bytes | None) -> None:
    built(either, "512-128")
    either.command("keep", "v1", str(either.receipt("compile", "512-128")))
    lower, compiled = (Receipt.read(either.receipt(name, "512-128")) for name in ("lower", "compile"))
    name, holding = f"actions/{lower.key[:2]}/{lower.key}.json", open_holding(either.store)
    if damage == b"other":
        damage = lower.model_copy(update={"facts": {"other": True}}).model_dump_json().encode()
    holding.discard([name])
    if damage is not None:
        assert holding.put(name, damage)
    before = names(either)
    with pytest.raises(BadInput) as caught:
        either.command("collect", "--delete", *NOW)
    assert str(caught.value) == (
        f"kept receipt {either.receipt('compile', '512-128')}: compile {compiled.key[:12]} was made from lower, and "
        f"the record {name} is missing from {either.store}, damaged, without all that it made, or made anew with other "
        "results; accepted: run that stage again, which records it anew, or forget the release"
    )
    assert names(either) == before
    holding.discard([name])
    either.lower("512-128", of="512-128")
    either.command("collect", "--delete", *NOW)
    assert names(either) == before | {name}


@pytest.mark.parametrize(
    ("stage", "said"),
    [
        (
            "compile",
            r"kept receipt .*compile\.json: its output graph is missing from .*; accepted: run that stage again",
        ),
        (
            "lower",
            r"kept receipt .* was made from lower, and the record .* is missing from .*, without all that it made",
        ),
    ],
)
def test_an_object_that_a_kept_line_lost_is_a_gap_too(stage: str, said: str, either: Line) -> None:
    built(either, "512-128")
    either.command("keep", "v1", str(either.receipt("compile", "512-128")))
    ref, holding = Receipt.read(either.receipt(stage, "512-128")).outputs["graph"], open_holding(either.store)
    holding.discard([object_name(ref)])
    before = names(either)
    with pytest.raises(BadInput, match=said):
        either.command("collect", "--delete", *NOW)
    assert names(either) == before


def test_a_record_that_may_not_be_read_deletes_nothing(line: Line, monkeypatch: pytest.MonkeyPatch) -> None:
    built(line, "512-128", "256-64")
    line.command("keep", "v1", str(line.receipt("compile", "512-128")))
    before, lower = names(line), Receipt.read(line.receipt("lower", "512-128"))
    read = Folder.read

    def refuse(self: Folder, name: str) -> bytes | None:
        if lower.key in name:
            raise BadInput("AWS refuses GetObject (AccessDenied)")
        return read(self, name)

    monkeypatch.setattr(Folder, "read", refuse)
    with pytest.raises(BadInput, match="AWS refuses GetObject"):
        line.command("collect", "--delete", *NOW)
    assert names(line) == before


def test_files_that_are_none_of_a_store_stay(line: Line) -> None:
    built(line, "512-128")
    root = line.folder / "store"
    others = ["objects/ab/" + "ab" * 19, "objects/cd/" + "ab" * 32, "objects/pack/pack-1.idx", "actions/ab/build.yml"]
    others += [f"asked/a b/{'ab' * 32}.json", f"asked/{'ab' * 32}.json", f"actions/ab/{'ab' * 32}.yaml"]
    for name in others:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).touch()
    line.command("collect", "--delete", "--keep-nothing", *NOW)
    assert names(line) == set(others)


def test_grace_is_counted_by_the_clock_of_the_bucket(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    holding = machine("one").bucket
    holding.put("objects/one", b"1")
    monkeypatch.setattr("time.time", lambda: 0.0)
    (entry,) = holding.entries("objects")
    assert entry.written <= holding.now() < entry.written + 600

"""A folder with a bucket behind it: what goes there and when, what comes back, who wins, and damage."""

from __future__ import annotations

import errno
import hashlib
import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from ledger.errors import BadInput, FoundryError
from ledger.receipts import Receipt, Ref
from ledger.store import Store
from ledger.store.local import Lost
from ledger.store.shared import AT_ONCE
from tests.aws import Aws
from tests.ledger.conftest import MakeReceipt
from tests.ledger.store.conftest import Machine, Raw

KEY = "ab" * 32
LARGE = bytes(AT_ONCE) + b"one more"


def name(data: bytes) -> str:
    digest = hashlib.sha256(data).hexdigest()
    return f"objects/{digest[:2]}/{digest}"


def read(requests: list[tuple[str, str, int]]) -> set[str]:
    """The objects that were downloaded."""
    return {
        path[path.index("/objects/") + 1 :] for method, path, _ in requests if method == "GET" and "/objects/" in path
    }


def test_what_is_recorded_is_in_the_bucket_as_in_a_folder(
    machine: Machine, raw: Raw, make_receipt: MakeReceipt
) -> None:
    one = machine("one")
    receipt = make_receipt(outputs={"graph": one.put_bytes(b"hello"), "empty": one.put_bytes(b"")})
    assert one.record_action(receipt) == receipt
    assert raw.names() == sorted([f"actions/ab/{KEY}.json", name(b"hello"), name(b"")])
    assert raw.get(name(b"hello")) == b"hello"
    assert Receipt.model_validate_json(raw.get(f"actions/ab/{KEY}.json")) == receipt
    assert machine("two").find_action(KEY) == receipt


def test_work_that_is_not_recorded_leaves_nothing_there(machine: Machine, raw: Raw, make_receipt: MakeReceipt) -> None:
    one = machine("one")
    outputs = {"log": one.put_bytes(b"the compiler's last words")}
    with pytest.raises(ValueError, match="never recorded"):
        one.record_action(make_receipt(outputs=outputs, verdict="failed"))
    with pytest.raises(BadInput, match="missing from the store"):
        one.record_action(make_receipt(outputs={**outputs, "graph": Ref(sha256="12" * 32, bytes=1)}))
    assert raw.names() == []


def test_a_second_machine_downloads_what_it_uses(machine: Machine, aws: Aws, make_receipt: MakeReceipt) -> None:
    one = machine("one")
    weights, graph = one.put_bytes(LARGE), one.put_bytes(b"graph")
    one.record_action(make_receipt(outputs={"weights": weights, "graph": graph}))
    one.record_action(make_receipt(key="cd" * 32, outputs={"other": one.put_bytes(b"other")}))

    before, two = len(aws.requests()), machine("two")
    assert two.find_action(KEY) is not None
    assert read(aws.requests()[before:]) == {name(b"graph")}
    assert two.has(weights)
    assert not Store.has(two, weights)
    assert two.path(weights).read_bytes() == LARGE
    assert read(aws.requests()[before:]) == {name(b"graph"), name(LARGE)}
    assert two.path(weights).stat().st_mode & 0o777 == 0o444

    before = len(aws.requests())
    two.find_action(KEY)
    two.verify(weights)
    assert read(aws.requests()[before:]) == set()
    assert list((two.root / "tmp").iterdir()) == []


def test_stages_on_one_machine_download_an_object_once(machine: Machine, aws: Aws, make_receipt: MakeReceipt) -> None:
    one = machine("one")
    weights = one.put_bytes(LARGE)
    one.record_action(make_receipt(outputs={"weights": weights}))
    before = len(aws.requests())
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda _: machine("two").path(weights), range(4)))
    assert [method for method, path, _ in aws.requests()[before:] if method == "GET" and "/objects/" in path] == ["GET"]


@pytest.mark.parametrize("damage", [b"jello", b"hell", None])
def test_a_damaged_small_object_makes_the_action_run_again(
    machine: Machine, raw: Raw, make_receipt: MakeReceipt, damage: bytes | None
) -> None:
    one = machine("one")
    receipt = make_receipt(outputs={"graph": one.put_bytes(b"hello")})
    one.record_action(receipt)
    raw.drop(name(b"hello")) if damage is None else raw.put(name(b"hello"), damage)
    two = machine("two")
    assert two.find_action(KEY) is None
    assert name(b"hello") not in raw.names()
    two.put_bytes(b"hello")
    assert two.record_action(receipt) == receipt
    assert raw.get(name(b"hello")) == b"hello"
    assert machine("three").find_action(KEY) == receipt


def test_a_damaged_large_object_ends_its_reader_and_is_made_anew(
    machine: Machine, raw: Raw, make_receipt: MakeReceipt
) -> None:
    one = machine("one")
    weights = one.put_bytes(LARGE)
    receipt = make_receipt(outputs={"weights": weights})
    one.record_action(receipt)
    raw.put(name(LARGE), LARGE[::-1])
    two = machine("two")
    assert two.find_action(KEY) == receipt
    found = hashlib.sha256(LARGE[::-1]).hexdigest()
    with pytest.raises(BadInput) as caught:
        two.path(weights)
    assert str(caught.value) == (
        f"object s3://{raw.bucket}/foundry/{name(LARGE)} has sha256 {found}, not its name, and is removed; "
        "run again to make it anew"
    )
    assert not two.has(weights)
    assert two.find_action(KEY) is None
    two.put_bytes(LARGE)
    assert two.record_action(receipt) == receipt
    assert machine("three").path(weights).read_bytes() == LARGE


def test_a_damaged_object_is_removed_only_if_it_is_still_that_one(
    machine: Machine, raw: Raw, make_receipt: MakeReceipt, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = machine("one")
    receipt = make_receipt(outputs={"graph": one.put_bytes(b"hello")})
    one.record_action(receipt)
    raw.put(name(b"hello"), b"jello")
    two = machine("two")
    fetch = two.bucket.fetch

    def fetch_and_mend(what: str, path: Path) -> str | None:
        tag = fetch(what, path)
        raw.put(what, b"hello")
        return tag

    monkeypatch.setattr(two.bucket, "fetch", fetch_and_mend)
    assert two.find_action(KEY) is None
    assert raw.get(name(b"hello")) == b"hello"


def test_a_damaged_object_that_may_not_be_removed_is_named(
    machine: Machine, raw: Raw, make_receipt: MakeReceipt, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, two = machine("one"), machine("two")
    weights = one.put_bytes(b"weights")
    one.record_action(make_receipt(outputs={"weights": weights}))
    raw.put(name(b"weights"), b"WEIGHTS")

    def refuse(*_: str) -> bool:
        raise BadInput("AWS refuses DeleteObject")

    monkeypatch.setattr(two.bucket, "remove", refuse)
    with pytest.raises(Lost, match=rf"foundry/{name(b'weights')} has sha256 \w+, not its name, and stays: AWS refuses"):
        two.path(weights)
    assert two.find_action(KEY) is None


def test_a_full_disk_names_the_cache(
    machine: Machine, make_receipt: MakeReceipt, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, two = machine("one"), machine("two")
    weights = one.put_bytes(b"weights")
    one.record_action(make_receipt(outputs={"weights": weights}))

    def full(*_: object) -> str:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(two.bucket, "fetch", full)
    with pytest.raises(FoundryError) as caught:
        two.path(weights)
    assert str(caught.value) == (
        f"--cache {two.root}: No space left on device; accepted: a folder with room for what is built"
    )


@pytest.mark.parametrize("field", ['"facts":{"x":1e999}', '"facts":{"x":"\\ud800"}'])
def test_a_record_that_cannot_be_written_again_counts_as_none(
    machine: Machine, raw: Raw, make_receipt: MakeReceipt, field: str
) -> None:
    receipt = make_receipt(facts={})
    text = json.dumps(receipt.model_dump(mode="json"), separators=(",", ":"))
    raw.put(f"actions/ab/{KEY}.json", text.replace('"facts":{}', field).encode())
    assert machine("one").find_action(KEY) is None
    assert machine("one").record_action(receipt) == receipt


@pytest.mark.parametrize("change", [{"verdict": "failed"}, {"key": "00" * 32}, {"unknown": 1}, None])
def test_a_record_that_is_not_good_counts_as_none_and_is_replaced(
    machine: Machine, raw: Raw, make_receipt: MakeReceipt, change: dict[str, Any] | None
) -> None:
    receipt = make_receipt()
    text = "{" if change is None else json.dumps(receipt.model_dump(mode="json") | change)
    raw.put(f"actions/ab/{KEY}.json", text.encode())
    assert machine("one").find_action(KEY) is None
    assert machine("one").record_action(receipt) == receipt
    assert machine("two").find_action(KEY) == receipt


def test_a_damaged_copy_in_the_folder_comes_again(machine: Machine, make_receipt: MakeReceipt) -> None:
    one = machine("one")
    graph = one.put_bytes(b"hello")
    one.record_action(make_receipt(outputs={"graph": graph}))
    for data in (b"jello", b"hell"):
        one.path(graph).chmod(0o644)
        one.path(graph).write_bytes(data)
        assert one.verify(graph).read_bytes() == b"hello"


def test_who_records_first_wins_and_both_can_go_on(machine: Machine, raw: Raw, make_receipt: MakeReceipt) -> None:
    one, two = machine("one"), machine("two")
    first = make_receipt(outputs={"graph": one.put_bytes(b"first")}, measured={"stage_seconds": 1})
    second = make_receipt(outputs={"graph": two.put_bytes(b"second")}, measured={"stage_seconds": 2})
    assert one.record_action(first) == first
    assert two.record_action(second) == first
    assert two.path(first.outputs["graph"]).read_bytes() == b"first"
    assert one.find_action(KEY) == two.find_action(KEY) == first
    assert Store(two.root).find_action(KEY) == first, "the folder alone says the same"
    assert Receipt.model_validate_json(raw.get(f"actions/ab/{KEY}.json")) == first


def test_a_record_whose_object_is_gone_gives_way(machine: Machine, raw: Raw, make_receipt: MakeReceipt) -> None:
    one, two = machine("one"), machine("two")
    one.record_action(make_receipt(outputs={"graph": one.put_bytes(b"first")}))
    raw.drop(name(b"first"))
    second = make_receipt(outputs={"graph": two.put_bytes(b"second")})
    assert two.record_action(second) == second
    assert machine("three").find_action(KEY) == second


def test_a_record_that_is_made_anew_is_the_last_one(machine: Machine, make_receipt: MakeReceipt) -> None:
    one, two = machine("one"), machine("two")
    first = make_receipt(facts={"tags": 1})
    again = first.model_copy(update={"measured": {"stage_seconds": 9}})
    last = make_receipt(facts={"tags": 2})
    assert one.record_action(first, anew=True) == first
    assert two.record_action(again, anew=True) == again
    assert machine("three").find_action(KEY) == first, "nothing that followers see has changed"
    assert two.record_action(last, anew=True) == last
    assert one.find_action(KEY) == last


def test_what_only_the_folder_has_is_brought_to_the_bucket(
    machine: Machine, raw: Raw, tmp_path: Path, make_receipt: MakeReceipt
) -> None:
    folder = Store(tmp_path / "one")
    receipt = make_receipt(outputs={"graph": folder.put_bytes(b"hello"), "weights": folder.put_bytes(LARGE)})
    folder.record_action(receipt)
    assert machine("one").find_action(KEY) == receipt
    assert raw.names("objects") == sorted([name(b"hello"), name(LARGE)])
    assert machine("two").find_action(KEY) == receipt


def test_a_damaged_object_of_the_folder_is_never_brought_there(
    machine: Machine, raw: Raw, tmp_path: Path, make_receipt: MakeReceipt
) -> None:
    folder = Store(tmp_path / "one")
    graph = folder.put_bytes(b"hello")
    folder.record_action(make_receipt(outputs={"graph": graph}))
    folder.path(graph).chmod(0o644)
    folder.path(graph).write_bytes(b"jello")
    assert machine("one").find_action(KEY) is None
    assert raw.names() == []


def test_a_missing_object_is_named(machine: Machine) -> None:
    ref = Ref(sha256="ab" * 32, bytes=1)
    assert not machine("one").has(ref)
    with pytest.raises(BadInput, match=f"{ref.sha256} is missing from the store; run the stage that makes it again"):
        machine("one").path(ref)

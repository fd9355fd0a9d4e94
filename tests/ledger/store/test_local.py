"""The store in a folder: names against hashlib by hand, damage, links, actions, many writers at once."""

import errno
import hashlib
import json
import os
import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ledger.errors import BadInput, FoundryError
from ledger.store import Ref, Store
from tests.ledger.conftest import MakeReceipt


def files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())


def damage(path: Path, data: bytes) -> None:
    path.chmod(0o644)
    path.write_bytes(data)


def test_an_object_is_named_by_its_content_and_read_only(store: Store, tmp_path: Path) -> None:
    (tmp_path / "source").write_bytes(b"hello")
    ref = store.put_file(tmp_path / "source")
    name = hashlib.sha256(b"hello").hexdigest()
    assert ref == Ref(sha256=name, bytes=5)
    assert store.path(ref) == store.root / "objects" / name[:2] / name
    assert store.path(ref).read_bytes() == b"hello"
    assert stat.S_IMODE(store.path(ref).stat().st_mode) == 0o444
    assert store.verify(ref) == store.path(ref)
    assert files(store.root) == [store.path(ref)]


def test_a_full_disk_names_the_folder(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(FoundryError) as caught:
            store.put_bytes(b"hello")
    assert str(caught.value) == (
        f"--store {store.root}: No space left on device; accepted: a folder with room for what is built"
    )
    assert files(store.root) == []


def test_the_same_content_is_kept_once(store: Store, tmp_path: Path) -> None:
    (tmp_path / "source").write_bytes(b"hello")
    first = store.put_bytes(b"hello")
    assert store.put_file(tmp_path / "source") == first
    assert files(store.root) == [store.path(first)]


def test_a_fresh_copy_replaces_one_that_is_damaged_at_the_same_size(store: Store) -> None:
    ref = store.put_bytes(b"hello")
    damage(store.path(ref), b"jello")
    with store.path(ref).open("rb") as reader:
        assert store.put_bytes(b"hello") == ref
        assert reader.read() == b"jello", "who reads the old copy keeps it"
    assert store.verify(ref).read_bytes() == b"hello"
    assert stat.S_IMODE(store.path(ref).stat().st_mode) == 0o444
    assert files(store.root) == [store.path(ref)]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=30)
@given(parts=st.lists(st.binary(max_size=200)))
def test_a_stream_has_the_name_of_the_whole(store: Store, parts: list[bytes]) -> None:
    with store.writer() as file:
        told = []
        for part in parts:
            assert file.write(memoryview(part)) == len(part)
            told.append(file.tell())
    whole = b"".join(parts)
    assert file.ref == Ref(sha256=hashlib.sha256(whole).hexdigest(), bytes=len(whole))
    assert store.path(file.ref).read_bytes() == whole
    assert told[-1:] == ([len(whole)] if parts else [])
    assert file.closed


def test_a_stream_counts_bytes_of_wider_items(store: Store) -> None:
    with store.writer() as file:
        file.write(memoryview(b"abcdefgh").cast("I"))
    assert file.ref == store.put_bytes(b"abcdefgh")


def test_a_stream_takes_no_shortcut_around_the_hash(store: Store) -> None:
    with store.writer() as file:
        assert file.writable()
        assert not file.readable()
        assert not file.seekable()
        with pytest.raises(OSError, match="fileno"):
            file.fileno()


def test_an_object_is_flushed_whole_before_its_rename_and_its_folder_after(
    store: Store, calls: list[tuple[str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes, spy = [], os.fsync

    def fsync(descriptor: int) -> None:
        sizes.append(os.fstat(descriptor).st_size)
        spy(descriptor)

    monkeypatch.setattr(os, "fsync", fsync)
    for _ in range(2):
        with store.writer() as file:
            file.write(b"hello")
    name = file.ref.sha256
    aside = calls[0][1]
    assert calls[:4] == [("fsync", aside), ("fsync", "objects"), ("rename", name), ("fsync", name[:2])]
    assert sizes[0] == 5
    # The second writer cannot know that the copy of the first is good, nor that it has flushed the folder.
    assert calls[4][0] == "fsync"
    assert calls[5:] == [("rename", name), ("fsync", name[:2])]


def test_an_error_while_writing_leaves_nothing(store: Store) -> None:
    with pytest.raises(KeyboardInterrupt), store.writer() as file:
        file.write(b"half")
        raise KeyboardInterrupt
    assert files(store.root) == []
    assert not hasattr(file, "ref")


def test_a_source_that_is_missing_or_no_file_is_refused(store: Store, tmp_path: Path) -> None:
    with pytest.raises(BadInput) as caught:
        store.put_file(tmp_path / "absent")
    assert str(caught.value) == (
        f"{tmp_path}/absent cannot be read: No such file or directory; accepted: a readable file"
    )
    with pytest.raises(BadInput, match="Is a directory"):
        store.put_file(tmp_path)
    assert files(store.root) == []


def test_json_round_trip(store: Store) -> None:
    value = {"b": [1, 2.5, None], "a": "é"}
    ref = store.put_json(value)
    assert store.read_json(ref) == value
    assert ref == store.put_json(dict(reversed(value.items())))


def test_an_object_that_is_no_json_is_named(store: Store) -> None:
    ref = store.put_bytes(b"{")
    with pytest.raises(BadInput, match=f"object .*{ref.sha256} is not readable as JSON"):
        store.read_json(ref)


def test_a_missing_object_is_named(store: Store) -> None:
    ref = Ref(sha256="ab" * 32, bytes=1)
    assert not store.has(ref)
    for look in (store.path, store.verify, store.read_json):
        with pytest.raises(BadInput, match=f"{ref.sha256} is missing from the store"):
            look(ref)


def test_an_object_of_another_size_is_refused_and_made_anew(store: Store) -> None:
    ref = store.put_bytes(b"hello")
    damage(store.path(ref), b"hell")
    assert not store.has(ref)
    with pytest.raises(BadInput, match="has 4 bytes; accepted: 5"):
        store.path(ref)
    assert store.put_bytes(b"hello") == ref
    assert store.verify(ref).read_bytes() == b"hello"


@pytest.mark.parametrize("look", ["verify", "read_json"])
def test_a_damaged_object_is_found_and_removed(store: Store, look: str) -> None:
    ref = store.put_bytes(b"hello")
    path = store.path(ref)
    damage(path, b"jello")
    assert store.path(ref) == path
    with pytest.raises(BadInput, match=r"not its name, and is removed; run again to make it anew"):
        getattr(store, look)(ref)
    assert not path.exists()
    assert store.verify(store.put_bytes(b"hello")) == path


def test_links_are_relative_and_replace_what_was_there(store: Store, tmp_path: Path) -> None:
    first, second = store.put_bytes(b"first"), store.put_bytes(b"second")
    dest = tmp_path / "build/deep/weights.safetensors"
    store.link(first, dest)
    assert dest.read_bytes() == b"first"
    store.link(second, dest)
    assert dest.read_bytes() == b"second"
    assert not dest.readlink().is_absolute()
    assert [path.name for path in dest.parent.iterdir()] == [dest.name]
    dest.unlink()
    dest.write_bytes(b"a plain file")
    store.link(first, dest)
    assert dest.read_bytes() == b"first"


def test_a_link_survives_a_move_of_the_whole_tree(tmp_path: Path) -> None:
    store = Store(tmp_path / "tree/store")
    store.link(store.put_bytes(b"x"), tmp_path / "tree/build/file")
    (tmp_path / "tree").rename(tmp_path / "moved")
    assert (tmp_path / "moved/build/file").read_bytes() == b"x"


def test_a_link_in_a_folder_reached_through_a_link(store: Store, tmp_path: Path) -> None:
    (tmp_path / "really/far/away").mkdir(parents=True)
    (tmp_path / "near").symlink_to("really/far/away")
    store.link(store.put_bytes(b"x"), tmp_path / "near/file")
    assert (tmp_path / "near/file").read_bytes() == b"x"


def test_a_link_to_nothing_is_refused(store: Store, tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="missing"):
        store.link(Ref(sha256="ab" * 32, bytes=1), tmp_path / "file")
    assert not (tmp_path / "file").is_symlink()


def test_an_action_is_found_while_its_outputs_are_there(store: Store, make_receipt: MakeReceipt) -> None:
    kept, other = store.put_bytes(b"kept"), store.put_bytes(b"other")
    receipt = make_receipt(outputs={"a": kept, "b": other})
    assert store.find_action(receipt.key) is None
    store.record_action(receipt)
    assert store.find_action(receipt.key) == receipt
    damage(store.path(other), b"another size")
    assert store.find_action(receipt.key) is None
    store.path(kept).unlink()
    assert store.put_bytes(b"other") == other
    assert store.find_action(receipt.key) is None
    store.put_bytes(b"kept")
    assert store.find_action(receipt.key) == receipt


def test_what_cannot_be_found_again_is_not_recorded(store: Store, make_receipt: MakeReceipt) -> None:
    with pytest.raises(BadInput, match="missing"):
        store.record_action(make_receipt(outputs={"a": Ref(sha256="ab" * 32, bytes=1)}))
    with pytest.raises(ValueError, match="never recorded"):
        store.record_action(make_receipt(verdict="failed"))
    assert files(store.root) == []


@pytest.mark.parametrize(
    "change", [{"verdict": "failed"}, {"key": "00" * 32}, {"unknown": 1}, {"outputs": "gone"}, None]
)
def test_a_record_that_is_not_good_counts_as_none(
    store: Store, make_receipt: MakeReceipt, change: dict[str, Any] | None
) -> None:
    receipt = make_receipt()
    store.record_action(receipt)
    (path,) = files(store.root / "actions")
    path.write_text("{" if change is None else json.dumps(receipt.model_dump(mode="json") | change))
    assert store.find_action(receipt.key) is None
    store.record_action(receipt)
    assert store.find_action(receipt.key) == receipt


def test_only_old_leftovers_are_swept(store: Store) -> None:
    young, dead = store.root / "tmp" / "young", store.root / "tmp" / "dead"
    young.touch()
    dead.touch()
    os.utime(dead, (0, 0))
    Store(store.root)
    assert files(store.root) == [young]


def test_many_threads_write_the_same_content(store: Store) -> None:
    contents = [bytes([number % 3]) * 100_000 for number in range(48)]
    with ThreadPoolExecutor(8) as pool:
        refs = list(pool.map(lambda data: Store(store.root).put_bytes(data), contents))
    assert [ref.sha256 for ref in refs] == [hashlib.sha256(data).hexdigest() for data in contents]
    assert files(store.root) == sorted({store.verify(ref) for ref in refs})

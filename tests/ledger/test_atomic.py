"""Atomic writes: content, cleaning up, and the order of flush and rename that a power cut needs."""

import json
import os
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from ledger import atomic


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_what_is_written_is_there_and_nothing_else(tmp_path: Path) -> None:
    atomic.write_bytes(tmp_path / "new/folder/bytes", b"\x00\xff")
    atomic.write_text(tmp_path / "new/folder/text", "é\r\n")
    atomic.write_text(tmp_path / "new/folder/text", "second\n")
    assert (tmp_path / "new/folder/bytes").read_bytes() == b"\x00\xff"
    assert (tmp_path / "new/folder/text").read_bytes() == b"second\n"
    assert names(tmp_path / "new/folder") == ["bytes", "text"]


def test_json_is_for_people(tmp_path: Path) -> None:
    atomic.write_json(tmp_path / "a.json", {"b": "é", "a": [1]})
    assert (tmp_path / "a.json").read_text() == '{\n  "a": [\n    1\n  ],\n  "b": "é"\n}\n'


def test_a_value_that_is_not_json_leaves_the_old_file(tmp_path: Path) -> None:
    atomic.write_json(tmp_path / "a.json", 1)
    with pytest.raises(ValueError, match="JSON"):
        atomic.write_json(tmp_path / "a.json", float("nan"))
    assert json.loads((tmp_path / "a.json").read_text()) == 1


@pytest.mark.parametrize("before", [None, "old"])
def test_an_error_leaves_what_was_there(tmp_path: Path, before: str | None) -> None:
    path = tmp_path / "file"
    if before:
        path.write_text(before)
    with pytest.raises(KeyboardInterrupt), atomic.replacing(path) as beside:
        beside.write_text("half")
        raise KeyboardInterrupt
    assert names(tmp_path) == (["file"] if before else [])
    assert not before or path.read_text() == before


def test_a_new_folder_takes_the_place_of_the_old_one(tmp_path: Path) -> None:
    path = tmp_path / "release"
    for turn in ("first", "second"):
        with atomic.replacing_folder(path) as beside:
            (beside / "deep").mkdir()
            (beside / "deep" / turn).write_text(turn)
            (beside / "dangling").symlink_to("../not-yet-there")
        assert names(path) == ["dangling", "deep"]
        assert names(path / "deep") == [turn]
    assert names(tmp_path) == ["release"]


def test_an_error_leaves_the_old_folder(tmp_path: Path) -> None:
    path = tmp_path / "release"
    path.mkdir()
    (path / "old").touch()
    with pytest.raises(RuntimeError), atomic.replacing_folder(path) as beside:
        (beside / "half").touch()
        raise RuntimeError
    assert names(path) == ["old"]
    assert names(tmp_path) == ["release"]


def test_a_failed_swap_puts_the_old_folder_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "release"
    path.mkdir()
    (path / "old").touch()
    real, calls = os.rename, []

    def rename(source: Any, target: Any) -> None:
        calls.append(target)
        if len(calls) == 3:
            raise OSError(5, "Input/output error")
        real(source, target)

    monkeypatch.setattr(os, "rename", rename)
    with pytest.raises(OSError, match="Input/output"), atomic.replacing_folder(path) as beside:
        (beside / "new").touch()
    assert names(path) == ["old"]
    assert names(tmp_path) == ["release"]


def test_folders_written_by_many_are_each_whole(tmp_path: Path) -> None:
    path, start = tmp_path / "release", threading.Barrier(8)

    def write(who: int) -> None:
        start.wait()
        for _ in range(5):
            with atomic.replacing_folder(path) as beside:
                for part in range(3):
                    (beside / f"{who}-{part}").touch()

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(write, range(8)))
    found = names(path)
    assert found == [f"{found[0][0]}-{part}" for part in range(3)]
    assert names(tmp_path) == ["release"]


def test_a_file_is_flushed_before_its_rename_and_the_folder_after(tmp_path: Path, calls: list[tuple[str, str]]) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    with atomic.replacing(folder / "file") as beside:
        beside.write_text("x")
    assert calls == [("fsync", beside.name), ("rename", "file"), ("fsync", "folder")]


def test_a_folder_is_flushed_with_all_it_holds(tmp_path: Path, calls: list[tuple[str, str]]) -> None:
    with atomic.replacing_folder(tmp_path / "release") as beside:
        (beside / "deep").mkdir()
        (beside / "deep" / "file").write_text("x")
    assert calls == [
        ("fsync", "file"),
        ("fsync", "deep"),
        ("fsync", beside.name),
        ("rename", "release"),
        ("fsync", tmp_path.name),
    ]


def test_new_parent_folders_are_flushed_too(tmp_path: Path, calls: list[tuple[str, str]]) -> None:
    atomic.make_folder(tmp_path / "a" / "b")
    assert set(calls) == {("fsync", "a"), ("fsync", tmp_path.name)}
    calls.clear()
    atomic.make_folder(tmp_path / "a" / "b")
    assert calls == []


def test_only_old_leftovers_of_the_same_name_are_removed(tmp_path: Path) -> None:
    leftovers = [".a[1].json.dead.tmp", ".a[1].json.young.tmp", ".b.json.dead.tmp", "a[1].json.notes"]
    for name in leftovers:
        (tmp_path / name).touch()
        if "young" not in name:
            os.utime(tmp_path / name, (0, 0))
    (tmp_path / ".a[1].json.deadfolder.tmp").mkdir()
    (tmp_path / ".a[1].json.deadfolder.tmp" / "file").touch()
    os.utime(tmp_path / ".a[1].json.deadfolder.tmp", (0, 0))
    atomic.write_text(tmp_path / "a[1].json", "x")
    assert names(tmp_path) == sorted(["a[1].json", *leftovers[1:]])

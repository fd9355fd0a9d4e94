"""Keeping and forgetting: what a kept release names, and what cannot be kept."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from ledger.errors import BadInput
from ledger.store import kept
from ledger.store.holding import Folder
from tests.ledger.store.line import NOW, Line, built, collected, names

Printed = pytest.CaptureFixture[str]


def test_a_release_folder_is_kept_by_the_receipts_in_it(line: Line, capsys: Printed) -> None:
    built(line, "512-128", "256-64")
    release = line.folder / "release"
    for point in ("512-128", "256-64"):
        text = line.receipt("compile", point).read_text()
        (release / "variants" / point / "receipts").mkdir(parents=True)
        (release / "variants" / point / "receipts" / "compile.json").write_text(text)
    (release / "release.json").write_text("{}")
    (release / "variants/512-128/receipts/parity.failed.json").write_text("{}")
    line.command("keep", "v1.0", str(release))
    assert "kept v1.0: 2 receipts" in capsys.readouterr().out
    assert list(kept.all_kept(Folder(line.folder / "store"))) == ["v1.0"]
    assert collected(line, capsys, *NOW)["records"] == 0


Break = Callable[[Line], tuple[str, Path]]


def _missing(line: Line) -> tuple[str, Path]:
    for path in (line.folder / "store/objects").glob("*/*"):
        path.unlink()
    return "v1", line.receipt("lower", "512-128")


def _failed(line: Line) -> tuple[str, Path]:
    line.verdict = "failed"
    line.lower("512-128", again=True)
    return "v1", line.receipt("lower", "512-128").with_suffix(".failed.json")


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        (lambda line: ("a/b", line.receipt("lower", "512-128")), "NAME is 'a/b'; accepted: up to 64 letters, digits"),
        (lambda line: ("v1", line.folder / "store"), "/store has no receipts in it; accepted: a receipt, or a folder"),
        (lambda line: ("v1", line.folder / "no.json"), "no.json cannot be read: No such file or directory"),
        (_missing, "lower.json: its output graph is not in this store; accepted: receipts of what the store holds"),
        (_failed, "lower.failed.json says failed; accepted: receipts that are done or passed"),
    ],
)
def test_what_cannot_be_kept(line: Line, given: Break, sentence: str) -> None:
    line.lower("512-128")
    name, path = given(line)
    with pytest.raises(BadInput) as caught:
        line.command("keep", name, str(path))
    assert sentence in str(caught.value)
    assert kept.all_kept(Folder(line.folder / "store")) == {}


def test_a_name_is_kept_once(line: Line) -> None:
    line.lower("a", n=1)
    line.lower("b", n=2)
    for _ in range(2):
        line.command("keep", "v1", str(line.receipt("lower", "a")))
    with pytest.raises(BadInput, match=r"NAME is 'v1', which is kept with other receipts; accepted: another name, or"):
        line.command("keep", "v1", str(line.receipt("lower", "b")))
    with pytest.raises(BadInput, match=r"NAME is 'v2', which is not kept; accepted: v1"):
        line.command("forget", "v2")
    line.command("forget", "v1")
    with pytest.raises(BadInput, match=r"NAME is 'v1', which is not kept; accepted: none is"):
        line.command("forget", "v1")


def test_a_damaged_list_of_what_is_kept_deletes_nothing(line: Line) -> None:
    built(line, "512-128")
    before = names(line)
    (line.folder / "store/kept").mkdir()
    (line.folder / "store/kept/v1.json").write_text("{}")
    with pytest.raises(BadInput, match=r"kept/v1.json: receipts is missing; .*keep that release again"):
        line.command("collect", "--delete", *NOW)
    assert names(line) == before

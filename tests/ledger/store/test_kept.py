"""Keeping and forgetting: what a kept release names, and what cannot be kept."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from ledger.errors import BadInput
from ledger.receipts import Receipt
from ledger.store import kept
from ledger.store.holding import Folder
from ledger.store.opening import open_holding
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
    path = line.folder / "store/kept/v1.json"
    for command in (["collect", "--delete", *NOW], ["collect"]):
        with pytest.raises(BadInput) as caught:
            line.command(*command)
        assert str(caught.value) == (
            f"{path}: receipts is missing; accepted: a value, as it has no default; keep v1 again, or forget it"
        )
    assert names(line) == before


@pytest.mark.parametrize("damage", ["{}", "{", "", '{"receipts": {"a": 1e999}}'])
def test_a_damaged_record_can_be_kept_again_or_forgotten(line: Line, damage: str) -> None:
    line.lower("a", n=1)
    path = line.folder / "store/kept/v1.json"
    line.command("keep", "v1", str(line.receipt("lower", "a")))
    path.write_text(damage)
    line.command("keep", "v1", str(line.receipt("lower", "a")))
    assert list(kept.all_kept(Folder(line.folder / "store"))) == ["v1"]
    path.write_text(damage)
    line.command("forget", "v1")
    assert not path.exists()


def test_a_line_with_a_gap_cannot_be_kept(either: Line) -> None:
    built(either, "512-128")
    lower, compiled = (Receipt.read(either.receipt(name, "512-128")) for name in ("lower", "compile"))
    ref, holding = lower.outputs["graph"], open_holding(either.store)
    record = f"actions/{lower.key[:2]}/{lower.key}.json"
    for lost in (f"objects/{ref.sha256[:2]}/{ref.sha256}", record):
        holding.discard([lost])
        with pytest.raises(BadInput) as caught:
            either.command("keep", "v1", str(either.receipt("compile", "512-128")))
        assert str(caught.value) == (
            f"{either.receipt('compile', '512-128')}: compile {compiled.key[:12]} was made from lower, and the record "
            f"{record} is missing from {either.store}, damaged, without all that it made, or made anew with other "
            "results; accepted: receipts of runs whose whole line this store holds: run them again with it"
        )
    assert kept.all_kept(holding) == {}

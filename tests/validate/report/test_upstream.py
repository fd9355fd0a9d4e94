"""The section of what changed upstream: a line at the top, a table, every file; nothing of it without the file."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.validate.report.found import GONE, MOVED, SAME, UNKNOWN, UNWATCHED, upstream
from tests.validate.report.made import Made
from tests.validate.report.test_page import Parsed
from validate.report.__main__ import main


def page(made: Made, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, **checkpoints: dict[str, Any]) -> Path:
    """The page of a run as the command writes it, with these findings; without any, without the flag."""
    out, file = tmp_path / "report.html", tmp_path / "upstream.json"
    file.write_text(json.dumps({"asked": "2026-01-02T03:04:05+00:00", "endpoint": "hub", "checkpoints": checkpoints}))
    more = ["--upstream", str(file)] if checkpoints else []
    flags = ["--out", str(out), "--store", str(made.store.root), *more, str(made.receipts)]
    monkeypatch.setattr("sys.argv", ["report", *flags])
    assert main() == 0
    return out


def top(path: Path) -> str:
    """What a reader sees before the first section."""
    html = path.read_text()
    (path.parent / "top.html").write_text(html[: html.index("<main>")])
    return Parsed(path.parent / "top.html").text()


def test_without_the_flag_the_page_says_nothing_of_it(
    whole: Made, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "pstream" not in Parsed(page(whole, tmp_path, monkeypatch)).text()


def test_unchanged_is_a_section_and_no_line_at_the_top(
    whole: Made, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = page(whole, tmp_path, monkeypatch, same=SAME, own=UNWATCHED)
    assert "Upstream:" not in top(path)
    said = Parsed(path).text()
    assert "same: me/same is still at the pinned commit 111111111111." in said
    assert "✓ unchanged" in said
    assert "○ not watched" in said


@pytest.mark.parametrize(
    ("finding", "line"),
    [
        (MOVED, "x: me/<i>moved</i> moved from 111111111111 to 222222222222: 1 changed, 1 added, 1 removed, 1 of them"),
        (MOVED | {"files": []}, "to 222222222222: every file is the same; its licence is 'gemma' there"),
        (GONE, "x: me/gone no longer has the pinned commit 111111111111; it is at 222222222222."),
        (UNKNOWN, "x: unknown: me/gated is gated; accepted: a token."),
    ],
)
def test_what_differs_or_is_unknown_is_told_at_the_top(
    finding: dict[str, Any], line: str, whole: Made, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = top(page(whole, tmp_path, monkeypatch, same=SAME, x=finding))
    assert line in said.partition("Upstream:")[2]
    assert "me/same" not in said


def test_every_file_that_differs_is_listed(whole: Made, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    parsed = Parsed(page(whole, tmp_path, monkeypatch, x=MOVED))
    said = parsed.text()
    assert f"model.safetensors changed yes 10 GB {'a' * 64} 10.5 GB {'b' * 64}" in said
    assert f"<b>new</b> added no – – 12 B {'c' * 40}" in said
    assert f"old.json removed no 7 B {'d' * 40} – –" in said
    assert parsed.open == []
    assert not {tag for tag, _ in parsed.tags} & {"b>", "i"}


def test_the_same_receipts_and_findings_are_the_same_bytes(
    whole: Made, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = page(whole, tmp_path, monkeypatch, x=MOVED).read_bytes()
    assert page(whole, tmp_path, monkeypatch, x=MOVED).read_bytes() == first


def test_only_what_a_person_must_look_at_is_open() -> None:
    found = upstream(a=SAME, b=MOVED, c=GONE, d=UNKNOWN, e=UNWATCHED)
    assert [sentence[0] for sentence in found.open] == ["b", "c", "d"]


def test_a_night_whose_watch_failed_has_its_page(whole: Made, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out, file = tmp_path / "report.html", tmp_path / "upstream.json"
    flags = ["--out", str(out), "--store", str(whole.store.root), "--upstream", str(file), str(whole.receipts)]
    monkeypatch.setattr("sys.argv", ["report", *flags])
    assert main() == 0
    assert f"Upstream was not asked ({file} is missing)." in top(out)
    file.write_text('{"asked": "now"}')
    assert main() == 0
    assert f"Upstream is unknown (--upstream {file}: endpoint is missing; accepted: " in top(out)

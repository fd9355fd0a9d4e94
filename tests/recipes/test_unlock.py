"""A lock is removed when nobody holds it, and only then."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from ledger.errors import BadInput
from recipes import unlock


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / unlock.LOCKS).mkdir(parents=True)
    (tmp_path / unlock.LOCKS / "0.output.lock").touch()
    return tmp_path


@pytest.fixture
def elsewhere(tmp_path: Path) -> Path:
    other = tmp_path / "elsewhere"
    other.mkdir()
    return other


def start(folder: Path) -> Iterator[subprocess.Popen[str]]:
    """A process named like snakemake that says when it is up, and lives until its stdin closes."""
    script = folder / "snakemake"
    script.write_text("print('up', flush=True); input()")
    with subprocess.Popen(
        [sys.executable, str(script)], cwd=folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "up\n"
        yield process
        process.communicate("\n")


@pytest.fixture
def at_work(folder: Path) -> Iterator[subprocess.Popen[str]]:
    yield from start(folder)


@pytest.fixture
def at_work_elsewhere(elsewhere: Path) -> Iterator[subprocess.Popen[str]]:
    yield from start(elsewhere)


def locks(folder: Path) -> list[str]:
    return [path.name for path in (folder / unlock.LOCKS).iterdir()]


def test_the_lock_of_a_killed_run_goes(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert unlock.main() == 0
    assert locks(folder) == []
    assert capsys.readouterr().out == "removed the lock of a run that was killed\n"


def test_without_a_lock_nothing_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert unlock.main() == 0
    assert capsys.readouterr().out == ""


def test_the_lock_of_a_run_at_work_stays(folder: Path, at_work: subprocess.Popen[str]) -> None:
    with pytest.raises(BadInput, match=rf"snakemake \(process {at_work.pid}\) works in this folder"):
        unlock.main()
    assert locks(folder) == ["0.output.lock"]


@pytest.mark.usefixtures("at_work_elsewhere")
def test_a_run_in_another_folder_does_not_count(folder: Path) -> None:
    assert unlock.main() == 0
    assert locks(folder) == []

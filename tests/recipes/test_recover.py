"""A lock is removed when nobody holds it, and only then; receipts go when they cannot be used."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ledger.errors import BadInput
from ledger.receipts import Receipt
from ledger.store import Ref
from recipes.locks import LOCKS
from tests.recipes.ran import SMOKE, Run, run
from tests.serve.fakes import manifest


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / LOCKS).mkdir(parents=True)
    (tmp_path / LOCKS / "0.output.lock").touch()
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
    return [path.name for path in (folder / LOCKS).iterdir()]


def test_the_lock_of_a_killed_run_goes(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run() == 0
    assert locks(folder) == []
    assert capsys.readouterr().out == "removed the lock of a run that was killed\n"


def test_several_files_are_one_configuration(folder: Path) -> None:
    more = folder / "more.yaml"
    more.write_text("name: another")
    for name in ("smoke", "another"):
        receipt = folder / "results" / name / "receipts" / "demo" / "fetch.json"
        receipt.parent.mkdir(parents=True)
        receipt.write_text("damaged")
    assert run(SMOKE, more) == 0
    assert [path.parent.parent.parent.name for path in folder.rglob("fetch.json")] == ["smoke"]


def test_without_a_lock_nothing_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run() == 0
    assert capsys.readouterr().out == ""


def test_the_lock_of_a_run_at_work_stays(folder: Path, at_work: subprocess.Popen[str]) -> None:
    with pytest.raises(BadInput, match=rf"snakemake \(process {at_work.pid}\) works in this folder"):
        run()
    assert locks(folder) == ["0.output.lock"]


@pytest.mark.usefixtures("at_work_elsewhere")
def test_a_run_in_another_folder_does_not_count(folder: Path) -> None:
    assert run() == 0
    assert locks(folder) == []


def test_receipts_that_cannot_be_used_go(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    line = Run()
    line.leave("fetch.json", b"good")
    line.leave("v/compile.json", b"gone").unlink()
    cut = line.leave("v/lower.json", b"cut short")
    cut.chmod(0o644)
    cut.write_bytes(b"cut")
    (line.receipts / "tables.json").write_text("{")
    (line.receipts / "v/parity.failed.json").write_text("{")
    assert run() == 0
    assert line.left() == {"fetch.json", "v/parity.failed.json"}
    missing = "which this run makes again: its output graph is missing from the store, or cut short"
    said = capsys.readouterr().out.splitlines()
    assert said[0].startswith(
        f"removed {line.receipts}/tables.json, which this run makes again: receipt {line.receipts}/tables.json is not"
    )
    assert said[1:] == [
        f"removed {line.receipts}/v/compile.json, {missing}",
        f"removed {line.receipts}/v/lower.json, {missing}",
    ]
    assert run() == 0
    assert capsys.readouterr().out == ""


class Built(Run):
    """The same with a release and an artifact that are whole."""

    release, artifact = Path("results/smoke/release/demo"), Path("results/smoke/build/demo/variants/v")

    def __init__(self) -> None:
        super().__init__()
        files = {
            name: self.store.put_bytes(name.encode()) for name in ("README.md", "release.json", "variants/v/g.xla")
        }
        for name, ref in files.items():
            (self.release / name).parent.mkdir(parents=True, exist_ok=True)
            (self.release / name).write_bytes(self.store.path(ref).read_bytes())
        self.write("package", "package.json", files)
        self.artifact.mkdir(parents=True)
        (self.artifact / "none").touch()
        (self.artifact / "manifest.json").write_text(manifest(44, 8, 16, 24).model_dump_json())
        self.write("assemble", "v/assemble.json", {})
        Path("results/smoke/summary.json").write_text("[]")

    def write(self, stage: str, name: str, outputs: dict[str, Ref]) -> None:
        receipt = {"stage": stage, "key": "0" * 64, "recipe": {}, "inputs": {}, "outputs": outputs, "facts": {}}
        done: dict[str, Any] = {"measured": {}, "toolchain": {}, "source": "", "verdict": "done"}
        Receipt(**receipt, **done).write(self.receipts / name)


@pytest.mark.parametrize(
    ("file", "damage", "gone"),
    [
        (Built.release / "README.md", None, "package.json"),
        (Built.release / "variants/v/g.xla", "cut", "package.json"),
        (Built.release / "release.json", None, "package.json"),
        (Built.release / "release.json", "x" * len("release.json"), "package.json"),
        (Built.artifact / "manifest.json", None, "v/assemble.json"),
        (Built.artifact / "manifest.json", "{", "v/assemble.json"),
        (Built.artifact / "none", None, "v/assemble.json"),
    ],
)
def test_what_a_release_or_an_artifact_lost_is_made_again(
    file: Path,
    damage: str | None,
    gone: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    line = Built()
    assert run() == 0
    assert capsys.readouterr().out == ""
    whole = line.left()
    file.unlink()
    if damage is not None:
        file.write_text(damage)
    assert run() == 0
    assert whole - line.left() == {gone}
    (said,) = capsys.readouterr().out.splitlines()
    assert said.startswith(f"removed {line.receipts / gone}, which this run makes again: {file}")


def test_a_summary_that_cannot_be_read_is_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    line = Built()
    summary = Path("results/smoke/summary.json")
    summary.write_text('{"rows": [')
    assert run() == 0
    assert not summary.exists()
    assert capsys.readouterr().out.startswith(f"removed {summary}, which this run makes again: {summary} is not")
    assert line.left() == {"package.json", "v/assemble.json"}


def test_receipts_of_another_configuration_stay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    other = Path("results/other/receipts/tables.json")
    other.parent.mkdir(parents=True)
    other.write_text("{")
    assert run() == 0
    assert other.exists()


def test_a_run_at_work_keeps_its_receipts(folder: Path, at_work: subprocess.Popen[str]) -> None:
    line = Run()
    line.leave("fetch.json", b"gone").unlink()
    with pytest.raises(BadInput, match=f"process {at_work.pid}"):
        run()
    assert line.left() == {"fetch.json"}


def test_a_configuration_that_cannot_be_read_is_one_sentence(folder: Path) -> None:
    with pytest.raises(BadInput, match=r"nowhere\.yaml"):
        run(folder / "nowhere.yaml")
    assert locks(folder) == ["0.output.lock"]


def test_a_record_that_the_store_lost_is_written_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else nothing would run, and nobody could keep the release."""
    monkeypatch.chdir(tmp_path)
    line = Run()
    line.leave("fetch.json", b"good")
    receipt = Receipt.read(line.receipts / "fetch.json")
    assert line.store.find_action(receipt.key) is None
    assert run() == 0
    assert line.store.find_action(receipt.key) == receipt

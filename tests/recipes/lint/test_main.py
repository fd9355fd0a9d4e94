"""The command: what it prints, its exit codes, and one sentence for what it cannot judge."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from ledger.errors import BadInput
from recipes.lint.__main__ import main
from tests.recipes.lint.corpus import case

ROOT = Path(__file__).parents[3]


@pytest.fixture
def files(tmp_path: Path) -> tuple[str, str, str]:
    """A module with an error, one with a warning, and one with nothing."""
    for name, rule, half in (("error", "topk", "bad"), ("warn", "sort", "bad"), ("clean", "topk", "good")):
        (tmp_path / name).write_bytes(case(rule, half).hlo)
    return str(tmp_path / "error"), str(tmp_path / "warn"), str(tmp_path / "clean")


def test_json_is_one_list_over_all_files(files: tuple[str, str, str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*files, "--target", "inf2", "--json"]) == 1
    rows = json.loads(capsys.readouterr().out)
    assert [(row["file"], row["severity"], row["code"], row["instruction"], row["count"]) for row in rows] == [
        (files[0], "error", "NCC_EVRF001", "t", 1),
        (files[1], "warn", "NCC_EVRF029", "r", 1),
    ]
    keys = "file severity code rule instruction computation source message remedy count"
    assert {tuple(row) for row in rows} == {tuple(keys.split())}


def test_the_table_has_every_finding_and_a_count(
    files: tuple[str, str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(list(files)) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "error  topk [NCC_EVRF001]  %t"
    assert "       remedy: trace top-k with torch, which lowers it to a sort, or choose tokens on the host" in lines
    assert [line for line in lines if line.startswith(files[0][:-5])] == [
        f"{files[0]}: 1 errors, 0 warnings, 0 notes",
        f"{files[1]}: 0 errors, 1 warnings, 0 notes",
        f"{files[2]}: 0 errors, 0 warnings, 0 notes",
    ]


def test_warnings_do_not_fail(files: tuple[str, str, str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(list(files[1:])) == 0
    assert main([files[2], "--json"]) == 0
    assert capsys.readouterr().out.endswith("\n[]\n")


def test_what_the_caller_knows_is_judged(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "module").write_bytes(case("collective", "good").hlo)
    path = str(tmp_path / "module")
    assert [main([path, *flags]) for flags in ([], ["--tp", "2"], ["--tp", "1"], ["--aliases", "4"])] == [0, 0, 1, 1]
    assert "0 aliases where the build keeps 4 states on the device" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("argv", "sentence"),
    [
        ([], "the following arguments are required: FILE"),
        (["a", "--target", "cpu"], "argument --target: invalid choice: 'cpu'"),
        (["a", "--tp", "two"], "argument --tp: found 'two'; accepted: a whole number"),
        (["a", "--aliases", "-3"], "argument --aliases: "),
        (["/nowhere/a.hlo.pb"], "/nowhere/a.hlo.pb cannot be read: No such file or directory; accepted: "),
        (["/"], "/ cannot be read: Is a directory; accepted: "),
    ],
)
def test_wrong_flags_and_files_are_one_sentence(argv: list[str], sentence: str) -> None:
    with pytest.raises(BadInput) as caught:
        main(argv)
    assert sentence in str(caught.value)
    assert "\n" not in str(caught.value)


def test_as_a_command_a_damaged_file_says_so_and_nothing_else(files: tuple[str, str, str], tmp_path: Path) -> None:
    (tmp_path / "cut").write_bytes(Path(files[0]).read_bytes()[:-60])
    command = [sys.executable, "-m", "recipes.lint", files[0], str(tmp_path / "cut"), "--json"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"error: {tmp_path / 'cut'} is damaged")
    assert done.stderr.count("\n") == 1

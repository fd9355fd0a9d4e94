"""Flags that are refused, by the sentence a person reads."""

from pathlib import Path

import pytest

from ledger.errors import BadInput
from ledger.flags import Parser, check_file, check_folder, whole


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("file").touch()
    Path("folder").mkdir()


@pytest.mark.parametrize(
    ("argv", "sentence"),
    [
        ([], "pack: the following arguments are required: --release; see --help"),
        (["--rel", "x"], "pack: the following arguments are required: --release; see --help"),
        (["--release", "x", "--y"], "pack: unrecognized arguments: --y; see --help"),
    ],
)
def test_a_wrong_flag_is_one_sentence(argv: list[str], sentence: str, capsys: pytest.CaptureFixture[str]) -> None:
    parser = Parser("pack")
    parser.add_argument("--release", required=True)
    with pytest.raises(BadInput) as caught:
        parser.parse_args(argv)
    assert str(caught.value) == sentence
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("path", "sentence"),
    [
        ("folder", "--out folder is a folder; accepted: the path of a file"),
        ("", "--out . is a folder; accepted: the path of a file"),
        ("file/a", "--out: file is a file; accepted: a folder, or a path where one can be made"),
        ("file/a/b", "--out: file is a file; accepted: a folder, or a path where one can be made"),
    ],
)
def test_a_path_where_no_file_can_be(path: str, sentence: str) -> None:
    with pytest.raises(BadInput) as caught:
        check_file("--out", Path(path))
    assert str(caught.value) == sentence


@pytest.mark.parametrize("path", ["file", "file/a"])
def test_a_path_where_no_folder_can_be(path: str) -> None:
    with pytest.raises(BadInput) as caught:
        check_folder("--store", Path(path))
    assert str(caught.value) == "--store: file is a file; accepted: a folder, or a path where one can be made"


def test_an_empty_path_is_no_folder() -> None:
    with pytest.raises(BadInput) as caught:
        check_folder("--store", "")
    assert str(caught.value) == "--store is empty; accepted: a folder, or a path where one can be made"


def test_paths_that_are_fine_are_left_alone() -> None:
    for path in ("file", "new", "folder/new", "new/a/b"):
        check_file("--out", Path(path))
    for path in (".", "folder", "new", "folder/new/a"):
        check_folder("--store", Path(path))
    assert sorted(path.name for path in Path().iterdir()) == ["file", "folder"]


@pytest.mark.parametrize("text", ["x", "-1", "0", "1.5", "", "9" * 30, "²"])
def test_a_count_is_a_whole_number_from_its_least_on(text: str) -> None:
    parser = Parser("tool")
    parser.add_argument("--count", type=whole(1))
    with pytest.raises(BadInput, match=r"argument --count: found .*; accepted: a whole number, 1 or more"):
        parser.parse_args([f"--count={text}"])
    assert parser.parse_args(["--count", "12"]).count == 12

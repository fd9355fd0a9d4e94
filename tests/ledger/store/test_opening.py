"""Which store a location names, and the sentence for one that names none."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from ledger.errors import BadInput
from ledger.flags import Parser, add_store
from ledger.sources import ROOT
from ledger.store import Store, open_store
from ledger.store.opening import open_holding
from ledger.store.shared import SharedStore


def test_a_folder_is_a_store_of_this_machine(tmp_path: Path) -> None:
    store = open_store(tmp_path / "store", tmp_path / "cache")
    assert type(store) is Store
    assert store.root == tmp_path / "store"
    assert not (tmp_path / "cache").exists()


def test_a_bucket_is_used_through_the_cache(bucket: str, tmp_path: Path) -> None:
    store = open_store(f"s3://{bucket}/foundry/", str(tmp_path / "cache"))
    assert isinstance(store, SharedStore)
    assert (store.root, store.bucket.location) == (tmp_path / "cache", f"s3://{bucket}/foundry")


@pytest.mark.parametrize("location", ["gs://bucket/foundry", ""])
@pytest.mark.parametrize("opening", [open_store, open_holding])
def test_another_scheme_and_an_empty_location_are_refused(opening: object, location: str) -> None:
    assert callable(opening)
    with pytest.raises(BadInput) as caught:
        opening(location)
    assert str(caught.value) == f"--store: found {location!r}; accepted: a folder, or s3://BUCKET/PREFIX"


def test_an_empty_cache_is_refused() -> None:
    with pytest.raises(BadInput, match="--cache is empty; accepted: a folder"):
        open_store("s3://my-bucket/foundry", "")


@pytest.mark.parametrize(
    ("location", "flag", "sentence"),
    [
        ("file", "--store", "--store: file is a file; accepted: a folder, or a path where one can be made"),
        ("file/x", "store", "store: file is a file; accepted: a folder, or a path where one can be made"),
        ("s3://my-bucket/x", "--store", "--cache: file is a file; accepted: a folder, or a path where one can be made"),
        ("s3://my-bucket/x", "store", "cache: file is a file; accepted: a folder, or a path where one can be made"),
    ],
)
def test_a_place_that_is_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, location: str, flag: str, sentence: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("file").touch()
    with pytest.raises(BadInput) as caught:
        open_store(location, "file", flag=flag)
    assert str(caught.value) == sentence


def test_the_commands_make_no_folder(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="no is no folder; accepted: a store that is there"):
        open_holding(str(tmp_path / "no"))
    assert not (tmp_path / "no").exists()


def test_flags() -> None:
    parser = Parser("stage")
    add_store(parser)
    found = parser.parse_args(["--store", "s3://my-bucket/foundry"])
    assert (found.store, found.cache) == ("s3://my-bucket/foundry", "results/store")
    with pytest.raises(BadInput, match="--store"):
        parser.parse_args([])
    optional = Parser("other")
    add_store(optional, default="results/store")
    assert optional.parse_args([]).store == "results/store"


@pytest.mark.parametrize(
    ("argv", "code", "words"),
    [
        (["--help"], 0, "why"),
        (["why", "abcdef", "--store", "no"], 2, "error: --store no is no folder"),
        (["throw", "--store", "no"], 2, "error: ledger.store: argument COMMAND: invalid choice: 'throw'"),
        (["collect", "--store", "no", "--older-than", "-1"], 2, "accepted: a whole number, 0 or more"),
        ([], 2, "error: ledger.store: the following arguments are required: COMMAND"),
    ],
)
def test_the_command_line(argv: list[str], code: int, words: str) -> None:
    command = [sys.executable, "-m", "ledger.store", *argv]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == code
    assert words in done.stdout + done.stderr
    assert "Traceback" not in done.stderr

"""kill -9 before every line of the ledger: what is under a final name is whole, and a second run succeeds."""

import hashlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from ledger.atomic import replacing_folder
from ledger.receipts import Receipt
from ledger.sources import ROOT
from ledger.store import Store
from tests.ledger.kills import CONTENT, KEY, fill, put_file


@pytest.fixture(autouse=True)
def no_flush(monkeypatch: pytest.MonkeyPatch) -> None:
    # Second runs here are about a hundred each, and what they prove does not hang on the disk.
    monkeypatch.setattr(os, "fsync", lambda fd: None)


def killed_at_every_line(scenario: str, tmp_path: Path) -> Iterator[Path]:
    """What each killed run of the scenario left behind; the last run came to its end."""
    subprocess.run([sys.executable, "-m", "tests.ledger.kills", scenario, str(tmp_path)], cwd=ROOT, check=True)
    folders = list(tmp_path.iterdir())
    assert len(folders) > 10, "the trace saw nothing"
    yield from folders


def check_store(root: Path) -> None:
    """Every object has the content and mode its name promises, and every action is whole JSON."""
    for path in (root / "objects").glob("*/*"):
        assert hashlib.sha256(path.read_bytes()).hexdigest() == path.name
        assert path.stat().st_mode & 0o777 == 0o444
    for path in (root / "actions").glob("*/*.json"):
        json.loads(path.read_text())


def test_a_store_survives_a_kill_before_any_line_of_put_file(tmp_path: Path) -> None:
    for root in killed_at_every_line("put_file", tmp_path):
        check_store(root / "store")
        put_file(root)
        (path,) = (root / "store/objects").glob("*/*")
        assert path.read_bytes() == CONTENT


@pytest.mark.soak
def test_a_stream_killed_halfway_is_no_object(tmp_path: Path) -> None:
    found = set()
    for root in killed_at_every_line("stream", tmp_path):
        check_store(root / "store")
        found.add(tuple(path.name for path in (root / "store/objects").glob("*/*")))
    assert found == {(), (hashlib.sha256(CONTENT).hexdigest(),)}


@pytest.mark.soak
def test_an_action_killed_while_it_is_recorded_is_the_old_or_the_new_one(tmp_path: Path) -> None:
    found = set()
    for root in killed_at_every_line("record", tmp_path):
        check_store(root / "store")
        receipt = Store(root / "store").find_action(KEY)
        assert receipt is not None
        found.add(tuple(receipt.outputs))
    assert found == {(), ("a",)}


def test_a_file_killed_while_it_is_replaced_is_old_or_new(tmp_path: Path) -> None:
    found = {(root / "file").read_text() for root in killed_at_every_line("replace_file", tmp_path)}
    assert found == {"old" * 1000, "new" * 1000}


@pytest.mark.soak
def test_a_link_killed_while_it_is_replaced_is_old_or_new(tmp_path: Path) -> None:
    found = {(root / "build/file").read_bytes() for root in killed_at_every_line("link", tmp_path)}
    assert found == {b"old", b"new"}


def test_a_folder_killed_while_it_is_replaced_is_old_new_or_absent(tmp_path: Path) -> None:
    found = set()
    for root in killed_at_every_line("replace_folder", tmp_path):
        files = [path for path in (root / "release").rglob("*") if path.is_file()]
        found.add(tuple(path.read_text() for path in files))
        with replacing_folder(root / "release") as beside:
            fill(beside, "third")
        assert (root / "release/deep/two").read_text() == "third"
    assert found == {("old", "old"), (), ("new", "new")}


STAGE = """
import sys
from pydantic import BaseModel
from ledger.stage import Job, Outcome, run_stage

class Recipe(BaseModel):
    size: int

def work(job):
    with job.store.writer() as file:
        file.write(b"x" * job.recipe.size)
        print("halfway", flush=True)
        sys.stdin.readline()
        file.write(b"y" * job.recipe.size)
    return Outcome(outputs={"graph": file.ref})

sys.exit(run_stage("lower", Recipe, work, modules=("ledger.stage",), packages=(), argv=sys.argv[1:]))
"""


def test_a_stage_killed_at_work_leaves_no_receipt_and_runs_again(tmp_path: Path) -> None:
    out, store = tmp_path / "lower.json", tmp_path / "store"
    out.write_text("a receipt of an earlier configuration")
    flags = ["--recipe", '{"size": 100000}', "--store", str(store), "--out", str(out)]
    command = [sys.executable, "-c", STAGE, *flags]
    with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as run:
        assert run.stdout is not None
        assert run.stdout.readline().startswith("lower: building (")
        assert run.stdout.readline() == "halfway\n"
        run.kill()
    assert run.returncode == -signal.SIGKILL
    assert not out.exists()
    assert list((store / "objects").iterdir()) == list((store / "actions").iterdir()) == []

    again = subprocess.run(command, cwd=ROOT, input="\n", capture_output=True, text=True, check=True)
    assert "lower: done in" in again.stdout
    ref = Receipt.read(out).outputs["graph"]
    assert Store(store).verify(ref).read_bytes() == b"x" * 100_000 + b"y" * 100_000


WRITER = """
import sys
from pathlib import Path
from ledger.store import Store

print("ready", flush=True)
sys.stdin.read()
for _ in range(5):
    Store(Path(sys.argv[1])).put_bytes(bytes(100_000))
"""


def test_many_processes_write_the_same_content(tmp_path: Path) -> None:
    command = [sys.executable, "-c", WRITER, str(tmp_path)]
    runs = [
        subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for _ in range(4)
    ]
    for run in runs:
        assert run.stdout is not None
        assert run.stdout.readline() == "ready\n"
    for run in runs:
        assert run.stdin is not None
        run.stdin.close()
    for run in runs:
        with run:
            assert run.wait() == 0
    check_store(tmp_path)
    assert len(list((tmp_path / "objects").glob("*/*"))) == 1
    assert list((tmp_path / "tmp").iterdir()) == []

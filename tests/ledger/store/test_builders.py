"""Builders as processes: two that race for one key, and one that is killed while it uploads."""

from __future__ import annotations

import hashlib
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from ledger.receipts import Receipt
from ledger.sources import ROOT
from ledger.store import Store, open_store
from ledger.store.local import action_name
from ledger.store.remote import Bucket
from ledger.store.shared import SharedStore
from tests.aws import Aws
from tests.ledger.conftest import MakeReceipt
from tests.ledger.store.conftest import Machine, Raw
from tests.ledger.store.kills import KEY, LARGE, PART, record

STAGE = """
import sys
from pydantic import BaseModel
from ledger.errors import run_cli
from ledger.stage import Outcome, run_stage

class Recipe(BaseModel):
    turn: int

who, verdict, *argv = sys.argv[1:]

def work(job):
    print("halfway", flush=True)
    sys.stdin.readline()
    outputs = {"graph": job.store.put_bytes(who.encode() * 100_000)}
    return Outcome(outputs=outputs, facts={"who": who}, measured={"by": who}, verdict=verdict)

run_cli(lambda: run_stage("lower", Recipe, work, modules=("ledger.stage",), packages=(), argv=argv))
"""


class Builder:
    """A stage of its own process on a machine of its own."""

    def __init__(self, folder: Path, who: str, bucket: str, turn: int = 0, verdict: str = "done") -> None:
        self.store, self.out, self.who = folder / who, folder / f"{who}{turn}.json", who
        flags = ["--recipe", f'{{"turn": {turn}}}', "--store", f"s3://{bucket}/foundry", "--cache", str(self.store)]
        command = [sys.executable, "-c", STAGE, who, verdict, *flags, "--out", str(self.out)]
        self.process = subprocess.Popen(
            command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )

    def started(self) -> None:
        assert self.process.stdout is not None
        assert self.process.stdout.readline().startswith("lower: building (")
        assert self.process.stdout.readline() == "halfway\n"

    def ended(self) -> tuple[int, str, str]:
        with self.process:
            out, err = self.process.communicate("\n", timeout=60)
        return self.process.returncode, out, err


@pytest.mark.parametrize("turn", range(3))
def test_of_two_builders_one_wins_and_both_can_go_on(bucket: str, raw: Raw, tmp_path: Path, turn: int) -> None:
    builders = [Builder(tmp_path, who, bucket, turn) for who in "ab"]
    for builder in builders:
        builder.started()
    with ThreadPoolExecutor(2) as pool:
        endings = list(pool.map(Builder.ended, builders))
    assert [(code, err) for code, _, err in endings] == [(0, "")] * 2
    receipts = [Receipt.read(builder.out) for builder in builders]
    assert receipts[0] == receipts[1]
    (recorded,) = raw.names("actions")
    assert Receipt.model_validate_json(raw.get(recorded)) == receipts[0]
    who = receipts[0].facts["who"]
    said = f"another builder of {receipts[0].key[:12]} was first, and what it made is taken"
    assert [said in out for _, out, _ in endings] == [builder.who != who for builder in builders]
    for builder in builders:
        path = Store(builder.store).verify(receipts[0].outputs["graph"])
        assert path.read_bytes() == who.encode() * 100_000


def test_a_failed_stage_leaves_only_its_question_in_the_bucket(bucket: str, raw: Raw, tmp_path: Path) -> None:
    builder = Builder(tmp_path, "a", bucket, verdict="failed")
    builder.started()
    code, out, err = builder.ended()
    assert (code, err) == (1, "error: lower failed\n")
    assert "failed after" in out
    assert [name.rpartition("/")[0] for name in raw.names()] == ["asked/lower"]
    again = Builder(tmp_path, "a", bucket)
    again.started()
    assert again.ended()[0] == 0


def test_many_threads_agree_on_every_record(machine: Machine, raw: Raw, make_receipt: MakeReceipt) -> None:
    keys = [f"{number:02x}" * 32 for number in range(5)]

    def build(number: int) -> list[Receipt]:
        store = machine(f"machine{number}")
        data = str(number).encode()
        return [store.record_action(make_receipt(key=key, outputs={"graph": store.put_bytes(data)})) for key in keys]

    with ThreadPoolExecutor(4) as pool:
        told = list(pool.map(build, range(4)))
    for turn, key in enumerate(keys):
        recorded = Receipt.model_validate_json(raw.get(action_name(key)))
        assert [receipts[turn] for receipts in told] == [recorded] * 4


def killed(bucket: str, prefix: str, folder: Path, moment: str) -> bool:
    """Whether the moment came."""
    command = [sys.executable, "-m", "tests.ledger.store.kills", bucket, prefix, str(folder), moment]
    done = subprocess.run(command, cwd=ROOT, check=False, timeout=60)
    assert done.returncode in {0, -signal.SIGKILL}
    return done.returncode != 0


def check_killed(bucket: str, raw: Raw, folder: Path, moment: str) -> tuple[bool, bool, bool]:
    """Whether the moment came, whether the record is there, and whether parts of a file were left behind.

    What is visible is whole, another machine can tell, and the killed one can do it again.
    """
    prefix = moment.replace(":", "-")
    came = killed(bucket, prefix, folder / prefix / "one", moment)
    listed = raw.client.list_objects_v2(Bucket=bucket, Prefix=f"{prefix}/").get("Contents", [])
    there = {one["Key"].removeprefix(f"{prefix}/"): one["Size"] for one in listed}
    for name in (name for name in there if name.startswith("objects/")):
        data = raw.client.get_object(Bucket=bucket, Key=f"{prefix}/{name}")["Body"].read()
        assert hashlib.sha256(data).hexdigest() == name.rpartition("/")[2]
    recorded = action_name(KEY) in there
    if recorded:
        assert len([name for name in there if name.startswith("objects/")]) == 2, "objects come before their record"

    remote = Bucket(bucket, prefix, part=PART)
    found = SharedStore(folder / prefix / "two", remote).find_action(KEY)
    assert (found is not None) == recorded
    left = remote.uploads(float("inf"))
    remote.abort(left)
    assert remote.uploads(float("inf")) == []
    again = record(SharedStore(folder / prefix / "one", remote))
    assert SharedStore(folder / prefix / "three", remote).path(again.outputs["weights"]).read_bytes() == LARGE
    return came, recorded, bool(left)


@pytest.mark.parametrize(("moment", "leaves_parts"), [("bytes:7000000", True), ("request:11", False)])
def test_a_builder_killed_in_its_upload(bucket: str, raw: Raw, tmp_path: Path, moment: str, leaves_parts: bool) -> None:
    came, recorded, left = check_killed(bucket, raw, tmp_path, moment)
    assert (came, recorded) == (True, False)
    assert left is leaves_parts


@pytest.mark.soak
def test_a_builder_killed_before_any_request_and_in_any_part(bucket: str, raw: Raw, tmp_path: Path) -> None:
    moments = [f"request:{number}" for number in range(1, 13)] + [f"bytes:{n * 700_000}" for n in range(18)]
    seen = {moment: check_killed(bucket, raw, tmp_path, moment) for moment in moments}
    came = [moment for moment, (killed, _, _) in seen.items() if killed]
    assert len(came) >= 20
    assert {(recorded, left) for _, recorded, left in seen.values()} == {(False, False), (False, True), (True, False)}


def test_an_empty_machine_finds_what_another_one_built(bucket: str, aws: Aws, tmp_path: Path) -> None:
    first = Builder(tmp_path, "a", bucket)
    first.started()
    assert first.ended()[0] == 0
    second = Builder(tmp_path, "b", bucket)
    code, out, err = second.ended()
    assert (code, err) == (0, "")
    assert out.startswith("lower: unchanged (")
    assert Receipt.read(second.out) == Receipt.read(first.out)
    assert aws.requests()[-1][0] in {"GET", "HEAD"}
    third = open_store(f"s3://{bucket}/foundry", tmp_path / "c")
    assert third.read_json(third.put_json({"who": "c"})) == {"who": "c"}

"""What is recovered where the store, or the receipts too, are in a bucket."""

from __future__ import annotations

from pathlib import Path

import pytest

from ledger.receipts import Receipt
from ledger.store import open_store
from ledger.store.local import action_name, object_name
from ledger.store.remote import Bucket
from tests.recipes.ran import SMOKE, Run, run


def test_what_only_the_bucket_has_is_there(
    bucket: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("shared.yaml").write_text(f"store: s3://{bucket}/foundry")
    line = Run()
    for name in ("fetch", "tables"):
        path = line.leave(f"{name}.json", name.encode())
        if name == "fetch":
            open_store(f"s3://{bucket}/foundry").record_action(Receipt.read(line.receipts / "fetch.json"))
        path.unlink()
    assert run(SMOKE, Path("shared.yaml")) == 0
    assert line.left() == {"fetch.json"}
    assert "tables.json, which this run makes again: its output graph is missing" in capsys.readouterr().out


def test_receipts_that_travel_through_a_bucket_are_judged_there(
    bucket: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("shared.yaml").write_text(f"store: s3://{bucket}/store")
    line, there = Run(), Bucket(bucket, "files")
    for name in ("fetch", "tables", "v/assemble"):
        path = line.leave(f"{name}.json", name.encode())
        if name != "tables":
            open_store(f"s3://{bucket}/store").record_action(Receipt.read(line.receipts / f"{name}.json"))
        path.unlink()
    # Of this one the bucket has nothing, and this machine's folder all.
    line.leave("prompts.json", b"here alone")
    for path in line.receipts.rglob("*.json"):
        there.put(str(path), path.read_bytes())
        path.unlink()
    damaged, other = f"{line.receipts}/v/lower.json", "results/other/receipts/tables.json"
    for name in (damaged, f"{line.receipts}/v/parity.failed.json", other):
        there.put(name, b"{")
    travelling = ["--default-storage-provider", "s3", "--default-storage-prefix", f"s3://{bucket}/files"]
    assert run(SMOKE, Path("shared.yaml"), flags=travelling) == 0
    left = {entry.name.removeprefix(f"{line.receipts}/") for entry in there.entries("results")}
    assert left == {"fetch.json", "prompts.json", "v/assemble.json", "v/parity.failed.json", other}
    assert Bucket(bucket, "store").read(object_name(line.store.put_bytes(b"here alone"))) == b"here alone"
    gone, cut = capsys.readouterr().out.splitlines()
    at = f"s3://{bucket}/files/{line.receipts}"
    again = "which this run makes again"
    assert gone == f"removed {at}/tables.json, {again}: its output graph is missing from the store, or cut short"
    assert cut.startswith(f"removed {at}/v/lower.json, {again}: receipt {at}/v/lower.json is not")
    assert run(SMOKE, Path("shared.yaml"), flags=travelling) == 0
    assert capsys.readouterr().out == ""


def test_a_record_that_the_bucket_lost_is_written_again(
    bucket: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("shared.yaml").write_text(f"store: s3://{bucket}/store")
    line = Run()
    line.leave("fetch.json", b"good")
    receipt = Receipt.read(line.receipts / "fetch.json")
    assert run(SMOKE, Path("shared.yaml")) == 0
    there = Bucket(bucket, "store")
    assert len(list(there.entries("objects"))) == 1
    record = there.read(action_name(receipt.key))
    assert record and Receipt.parse(record, "") == receipt

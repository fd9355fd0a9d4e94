"""The judge of what a killed run has left sees what it is there to see."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.interruption.made import digests

RELEASE = "results/smoke/release/demo"


def put(folder: Path, name: str, data: bytes) -> None:
    (folder / name).parent.mkdir(parents=True, exist_ok=True)
    (folder / name).write_bytes(data)


def document(folder: Path, name: str, **changes: Any) -> None:
    put(folder, name, json.dumps(json.loads((folder / name).read_bytes()) | changes).encode())


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A run's folder with one object, one receipt, and a release of one variant."""
    manifest = b"{}"
    judged = {"mismatches": [], "artifact": hashlib.sha256(manifest).hexdigest()}
    parity = json.dumps({"stage": "parity", "outputs": {}, "facts": judged, "verdict": "passed"}).encode()
    files = {"variants/one/manifest.json": manifest, "variants/one/receipts/parity.json": parity}
    listed = {name: {"sha256": hashlib.sha256(data).hexdigest()} for name, data in files.items()}
    for name, data in files.items():
        put(tmp_path, f"{RELEASE}/{name}", data)
    put(tmp_path, f"{RELEASE}/release.json", json.dumps({"files": listed, "variants": ["one"]}).encode())
    put(tmp_path, "results/smoke/receipts/demo/one/parity.json", parity)
    put(tmp_path, f"results/store/objects/ab/{hashlib.sha256(b'x').hexdigest()}", b"x")
    return tmp_path


def test_what_is_whole_is_listed(folder: Path) -> None:
    put(folder, "results/store/tmp/half", b"{")
    put(folder, "results/smoke/release/.demo.x.tmp/release.json", b"{")
    names = ["results/smoke/receipts/demo/one/parity.json", f"{RELEASE}/variants/one/manifest.json"]
    assert sorted(digests(folder)) == sorted(names)


def unlist(folder: Path) -> None:
    put(folder, f"{RELEASE}/variants/two/manifest.json", b"{}")


def fail(folder: Path) -> None:
    relist(folder, verdict="failed")


def mismatch(folder: Path) -> None:
    relist(folder, facts={"mismatches": [1], "artifact": hashlib.sha256(b"{}").hexdigest()})


def judge_another(folder: Path) -> None:
    relist(folder, facts={"mismatches": [], "artifact": "0" * 64})


def relist(folder: Path, **changes: Any) -> None:
    """Change the receipt of parity in the release, whose own list agrees."""
    name = "variants/one/receipts/parity.json"
    document(folder, f"{RELEASE}/{name}", **changes)
    listed = json.loads((folder / RELEASE / "release.json").read_bytes())["files"]
    listed[name] = {"sha256": hashlib.sha256((folder / RELEASE / name).read_bytes()).hexdigest()}
    document(folder, f"{RELEASE}/release.json", files=listed)


def cut_object(folder: Path) -> None:
    [path] = (folder / "results/store/objects/ab").iterdir()
    path.write_bytes(b"")


def cut_receipt(folder: Path) -> None:
    put(folder, "results/smoke/receipts/demo/one/parity.json", b'{"stage": "par')


def lose_a_file(folder: Path) -> None:
    (folder / RELEASE / "variants/one/manifest.json").unlink()


@pytest.mark.parametrize(
    "damage",
    [unlist, fail, mismatch, judge_another, cut_object, cut_receipt, lose_a_file],
    ids=lambda one: one.__name__,
)
def test_what_may_not_be_there_is_seen(damage: Callable[[Path], None], folder: Path) -> None:
    damage(folder)
    with pytest.raises((AssertionError, ValueError, FileNotFoundError)):
        digests(folder)

"""Receipts: what their digest covers, round trips, damage."""

import json
from pathlib import Path
from typing import Any

import pytest

from ledger.errors import BadInput
from ledger.receipts import Receipt, Ref
from tests.ledger.conftest import MakeReceipt

REF = Ref(sha256="12" * 32, bytes=7)


@pytest.mark.parametrize(
    "change",
    [{"stage": "fetch"}, {"outputs": {"graph": REF}}, {"facts": {"layers": 5}}, {"verdict": "passed"}],
)
def test_the_digest_covers_what_was_made(make_receipt: MakeReceipt, change: dict[str, Any]) -> None:
    assert make_receipt(**change).digest != make_receipt().digest


@pytest.mark.parametrize(
    "change",
    [
        {"key": "00" * 32},
        {"recipe": {}},
        {"inputs": {}},
        {"measured": {"stage_seconds": 9}},
        {"toolchain": {}},
        {"source": "other"},
    ],
)
def test_the_digest_leaves_out_how_it_was_made(make_receipt: MakeReceipt, change: dict[str, Any]) -> None:
    assert make_receipt(**change).digest == make_receipt().digest


def test_a_receipt_read_back_is_the_same(make_receipt: MakeReceipt, tmp_path: Path) -> None:
    receipt = make_receipt(outputs={"graph": REF}, facts={"names": ("a", "é"), "loss": 0.1, "deep": {"x": [1]}})
    receipt.write(tmp_path / "deep/er/lower.json")
    again = Receipt.read(tmp_path / "deep/er/lower.json")
    assert again.digest == receipt.digest
    assert again.model_dump(mode="json") == receipt.model_dump(mode="json")


def test_a_missing_receipt_is_named(tmp_path: Path) -> None:
    with pytest.raises(BadInput) as caught:
        Receipt.read(tmp_path / "fetch.json")
    said = f"receipt {tmp_path}/fetch.json cannot be read: No such file or directory"
    assert str(caught.value) == f"{said}; accepted: a file that a stage wrote"


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"verdict": "maybe"}, "verdict is 'maybe'; accepted: 'done', 'passed' or 'failed'"),
        ({"outputs": {"graph": {"sha256": "12" * 32}}}, "outputs.graph.bytes is missing; accepted: a value"),
        (
            {"outputs": {"graph": {"sha256": "zz", "bytes": 1}}},
            "outputs.graph.sha256 is 'zz'; accepted: text that",
        ),
        (
            {"extra": 1},
            "extra is not a known key; accepted: stage, key, recipe, inputs, outputs, facts, measured,",
        ),
    ],
)
def test_a_wrong_receipt_is_one_sentence(
    make_receipt: MakeReceipt, tmp_path: Path, change: dict[str, Any], says: str
) -> None:
    path = tmp_path / "lower.json"
    path.write_text(json.dumps(make_receipt().model_dump() | change))
    with pytest.raises(BadInput) as caught:
        Receipt.read(path)
    assert str(caught.value).startswith(f"receipt {path}: {says}")


def test_a_cut_receipt_is_one_sentence(make_receipt: MakeReceipt, tmp_path: Path) -> None:
    path = tmp_path / "lower.json"
    make_receipt().write(path)
    whole = path.read_bytes().rstrip()
    for length in range(0, len(whole), 7):
        path.write_bytes(whole[:length])
        with pytest.raises(BadInput, match=r"^receipt .*lower\.json is not readable as JSON"):
            Receipt.read(path)

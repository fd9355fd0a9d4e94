"""Damaged receipts are named by file and key."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ledger.errors import BadInput
from ledger.receipts import Receipt
from validate.facts import check_facts

EXEMPT = {"check": "oracle", "prompt": "chat-a", "position": 3, "expected": 7, "got": 8, "gap": 0.125}
WHOLE: dict[str, Any] = {"prompts": 3, "tokens": 9, "mismatches": [], "exemptions": [], "agreement": 1.0}


def receipt(stage: str, facts: dict[str, Any], measured: dict[str, Any]) -> Receipt:
    common: dict[str, Any] = {"recipe": {}, "inputs": {}, "outputs": {}, "toolchain": {}}
    return Receipt(stage=stage, key="0" * 64, facts=facts, measured=measured, verdict="passed", source="s", **common)


@pytest.mark.parametrize("key", ["prompts", "tokens", "mismatches", "exemptions", "agreement"])
def test_a_fact_of_another_kind_is_named(key: str) -> None:
    with pytest.raises(BadInput, match=rf"parity\.json: facts: {key}"):
        check_facts(receipt("parity", WHOLE | {key: "x"}, {}), Path("parity.json"))


def test_a_missing_fact_is_named() -> None:
    facts = {key: value for key, value in WHOLE.items() if key != "tokens"}
    with pytest.raises(BadInput, match=r"parity\.json: facts: tokens is missing"):
        check_facts(receipt("parity", facts, {}), Path("parity.json"))


def test_seconds_are_a_number_in_every_stage() -> None:
    with pytest.raises(BadInput, match=r"fetch\.json: measured: stage_seconds"):
        check_facts(receipt("fetch", {}, {"stage_seconds": "x"}), Path("fetch.json"))


def test_what_the_stages_write_passes() -> None:
    check_facts(receipt("parity", WHOLE | {"checks": {}, "epsilon": 0.1}, {"stage_seconds": 1.5}), Path("p.json"))
    check_facts(receipt("parity", WHOLE | {"exemptions": [EXEMPT]}, {}), Path("parity.json"))
    check_facts(receipt("lower", {"tp": 1}, {}), Path("lower.json"))
    check_facts(receipt("bench", {"size_mb": 1, "added_mb": None}, {"load_s": 2}), Path("bench.json"))


def test_an_exemption_says_what_was_exempt() -> None:
    with pytest.raises(BadInput, match=r"parity\.json: facts: exemptions\.0\.gap is missing"):
        check_facts(
            receipt("parity", WHOLE | {"exemptions": [{k: v for k, v in EXEMPT.items() if k != "gap"}]}, {}),
            Path("parity.json"),
        )

"""Runs that are made up once and read by many tests."""

from pathlib import Path

import pytest

from recipes.hub.findings import Upstream
from tests.validate.report.made import EXEMPT, MISMATCH, Made, finished


@pytest.fixture(scope="package")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Made:
    """A finished run; tests only read it."""
    return finished(tmp_path_factory.mktemp("whole"))


@pytest.fixture(scope="package")
def broken(tmp_path_factory: pytest.TempPathFactory) -> Made:
    """A run with a variant that passed, one that failed parity, and one that was stopped after its assembly."""
    made = Made(tmp_path_factory.mktemp("broken"))
    made.variant("512-128")
    made.variant("bf16", dtype="bfloat16", parity={"exemptions": [EXEMPT], "mismatches": [MISMATCH]})
    made.variant("late")
    for stage in ("bench", "parity"):
        made.forget(f"late/{stage}")
    return made


def report(made: Made, out: Path, upstream: Upstream | None = None) -> Path:
    """The page of a made-up run."""
    from ledger.atomic import write_text
    from validate.report.page import page
    from validate.report.run import read

    write_text(out, page(read([made.receipts]), made.store, None, upstream))
    return out

"""A second machine with an empty disk and a full store: nothing is made twice. A minute, on the smallest line."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from ledger.sources import ROOT


@pytest.mark.soak
def test_a_second_machine_makes_nothing_again(tmp_path: Path) -> None:
    out = tmp_path / "figures.json"
    command = [sys.executable, "-m", "tests.two_machines", "config/smoke.yaml", "--out", str(out)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    figures = json.loads(out.read_bytes())
    stages = {"fetch", "lower", "weights", "tables", "compile", "assemble", "prompts", "oracle", "parity", "bench"}
    assert figures["first_stages"].keys() == stages | {"package"}
    assert figures["second_stages"].keys() == {"assemble"}
    assert figures["objects"] > 0

"""Over pairs of drawn points, keys are equal exactly when what was made is equal.

What was made is judged by the bytes: HLO and signatures of graphs that were really lowered, one for one, and the files
of real weights. Of a compile it is what XLA is handed: HLO and options.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest

from ledger.sources import ROOT

Rows = list[dict[str, tuple[str, Any]]]


def outcomes(seed: int, count: int, folder: Path) -> Rows:
    command = [sys.executable, "-m", "tests.keys.outcomes", str(seed), str(count), str(folder)]
    done = subprocess.run(command, cwd=ROOT, env=os.environ, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    rows: Rows = json.loads(done.stdout)
    return rows


def disagreements(rows: Rows) -> tuple[Counter[str], list[str]]:
    """Pairs by stage, and whether their keys were equal; and those where what was made says otherwise."""
    counted: Counter[str] = Counter()
    found = []
    for one, other in combinations(rows, 2):
        for stage in one.keys() & other.keys():
            (key, made), (other_key, other_made) = one[stage], other[stage]
            counted[f"{stage} {'equal' if key == other_key else 'different'}"] += 1
            if (key == other_key) != (made == other_made):
                found.append(f"{stage}: {key[:12]} {made} and {other_key[:12]} {other_made}")
    return counted, found


@pytest.mark.parametrize(("count", "pairs"), [(14, 91), pytest.param(150, 11_175, marks=pytest.mark.soak)])
def test_keys_are_equal_exactly_when_what_is_made_is(count: int, pairs: int, tmp_path: Path) -> None:
    counted, found = disagreements(outcomes(7, count, tmp_path))
    sys.stdout.write(f"{dict(sorted(counted.items()))}\n")
    assert found == []
    assert counted["lower equal"] + counted["lower different"] == pairs
    # Both directions are seen, of every stage.
    stages = ("lower", "compile", "weights")
    assert all(counted[f"{stage} {how}"] for stage in stages for how in ("equal", "different"))

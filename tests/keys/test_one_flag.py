"""One changed flag of one variant, run for real: that variant is compiled, judged, measured and packaged, and no other.

A soak test of some three minutes.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import yaml

from ledger.sources import ROOT
from tests.interruption.line import Line

pytestmark = pytest.mark.soak

FLAG = "xla_cpu_prefer_vector_width=256"


def configuration(path: Path, **changes: object) -> Path:
    """The smallest run, with a second variant; `changes` are keys of the second."""
    given = yaml.safe_load((ROOT / "config" / "smoke.yaml").read_text())
    variants = given["checkpoints"]["demo"]["variants"]
    variants.append(variants[0] | {"name": "other", "batch": 2} | changes)
    path.write_text(yaml.safe_dump(given))
    return path


def builds(line: Line) -> list[str]:
    """Stages that said that they build, sorted."""
    return sorted(re.findall(r"^(\w+): building \(", (line.folder / "run.log").read_text(), re.M))


def test_one_changed_flag_builds_one_variant_from_its_compile_on(tmp_path: Path) -> None:
    line = Line(tmp_path / "line", configuration(tmp_path / "usual.yaml"))
    line.folder.mkdir()
    assert line.run()
    assert builds(line).count("compile") == 2
    receipts = line.folder / "results" / "smoke" / "receipts" / "demo"
    before = {path: path.read_bytes() for path in receipts.rglob("*.json")}

    line.config = configuration(tmp_path / "flag.yaml", flags=[FLAG])
    assert line.run()
    assert builds(line) == ["assemble", "bench", "compile", "package", "parity"]
    changed = {str(path.relative_to(receipts)) for path, data in before.items() if path.read_bytes() != data}
    stages = ("assemble", "bench", "compile", "parity")
    assert changed == {"package.json", *(f"other/{stage}.json" for stage in stages)}
    assert json.loads((receipts / "other" / "compile.json").read_bytes())["recipe"]["flags"] == [FLAG]

    # Back again: all of it is known, but the folder of an artifact is filled anew.
    line.config = configuration(tmp_path / "usual.yaml")
    assert line.run()
    assert set(builds(line)) <= {"assemble"}

"""The command: tables, JSON, exit codes, and one sentence for what it cannot plan."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from ledger.errors import BadInput, GateFailed
from recipes.fit import law
from recipes.plan.__main__ import main

ROOT = Path(__file__).parents[3]


def _config(folder: Path, geometry: str, *variants: dict[str, Any]) -> str:
    """A configuration with one checkpoint; what a variant leaves out is bfloat16 on inf2."""
    usual = {"kv_max": 64, "kv_bucket": 16, "dtype": "bfloat16", "target": "inf2"}
    given = [{"name": f"v{number}"} | usual | variant for number, variant in enumerate(variants)]
    checkpoint = {
        "source": {"kind": "path", "path": "nowhere"},
        "geometry": geometry,
        "release": {"name": "r", "latest": "v0"},
        "variants": given,
    }
    path = folder / "config.yaml"
    document = {"name": "n", "checkpoints": {"c": checkpoint}, "parity": {"max_new": 8}}
    path.write_text(yaml.safe_dump(document))
    return str(path)


def test_the_table_has_a_line_per_variant_and_the_plot_is_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = _config(tmp_path, "tiny", {}, {"slim": True}, {"target": "cpu"})
    assert main([config, "--plot", str(tmp_path / "plot.svg")]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split("  ")[0] == "checkpoint" and "expected tok/s" in lines[0]
    assert [line.split()[:2] for line in lines[1:3]] == [["c", "v0"], ["c", "v1"]]
    assert all("ok, " in line and line.endswith("inf2.xlarge") for line in lines[1:3])
    assert lines[-1] == "left out: c/v2, whose target is not inf2"
    assert "</svg>" in (tmp_path / "plot.svg").read_text()


def test_json_has_both_parts_when_both_are_asked_for(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([_config(tmp_path, "tiny", {}), "--check-published", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    (row,) = found["variants"]
    assert row["cannot_work"] == [] and row["lint"]["error"] == 0 and row["decode"]["flops"] > 0
    assert found["left_out"] == [] and found["stated_error"] == 0.15
    assert all(one["holds"] and abs(one["error"]) <= 0.15 and one["source"] for one in found["published"])


def test_a_variant_that_cannot_work_is_exit_code_1_after_the_table(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = _config(tmp_path, "gemma-4-12B-it", {"kv_max": 256, "kv_bucket": 64})
    with pytest.raises(GateFailed, match=r"config.yaml: c/v0 cannot work: HBM per core is 2\d\.\d GiB.*tp: 2 \(1"):
        main([config])
    lines = capsys.readouterr().out.splitlines()
    assert lines[1].endswith("none") and lines[2].startswith("cannot work: c/v0: HBM per core")


def test_a_law_beyond_its_error_is_exit_code_1(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(law, "HOST", law.HOST / 2)
    with pytest.raises(GateFailed, match="published figure 'E2B one core, 512 rows': the law is off by -"):
        main(["--check-published"])
    assert "E2B one core, 2048 rows" in capsys.readouterr().out


def test_the_check_needs_no_file_and_no_torch(tmp_path: Path) -> None:
    command = (
        "import sys; from recipes.plan.__main__ import main; main(['--check-published']); print('torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", command], cwd=ROOT, capture_output=True, text=True, check=True)
    lines = done.stdout.splitlines()
    assert lines[-1] == "False"
    assert any(line.startswith("stated error 15%; largest ") for line in lines)
    assert sum(line.startswith("left out: ") for line in lines) == 4


@pytest.mark.parametrize(
    ("argv", "sentence"),
    [
        ([], "recipes.plan: FILE is missing; accepted: a configuration, or --check-published"),
        (["--plot", "a.svg", "--check-published"], "--plot needs FILE; accepted: a configuration such as"),
        (["config/demo.yaml", "--plot", "a.png"], "--plot is a.png; accepted: a name that ends in .svg"),
        (["config/demo.yaml"], "config/demo.yaml: no variant has target inf2; accepted: a configuration such as"),
        (["nowhere.yaml"], "nowhere.yaml: cannot be read (No such file or directory)"),
        (["config/demo.yaml", "--jsn"], "recipes.plan: unrecognized arguments: --jsn"),
    ],
)
def test_what_is_not_accepted_is_one_sentence(monkeypatch: pytest.MonkeyPatch, argv: list[str], sentence: str) -> None:
    monkeypatch.chdir(ROOT)
    with pytest.raises(BadInput) as caught:
        main(argv)
    assert str(caught.value).startswith(sentence)


@pytest.mark.soak
def test_the_real_matrix_in_two_gigabytes(tmp_path: Path) -> None:
    """About half a minute."""
    env = {name: value for name, value in os.environ.items() if name != "PJRT_DEVICE"}
    with (tmp_path / "out").open("w+") as out, (tmp_path / "complaints").open("wb") as complaints:
        command = [sys.executable, "-m", "recipes.plan", "config/variants.yaml", "--json"]
        process = subprocess.Popen(command, cwd=ROOT, stdout=out, stderr=complaints, env=env)
        _, status, usage = os.wait4(process.pid, 0)  # the largest of the process and its children
        process.returncode = os.waitstatus_to_exitcode(status)
        out.seek(0)
        rows = json.load(out)["variants"]
    assert process.returncode == 0 and len(rows) >= 12
    assert (tmp_path / "complaints").read_text() == ""
    assert usage.ru_maxrss < 2_000_000  # kB
    assert all(row["hbm"]["fits"] and row["lint"]["error"] == 0 and row["instance"] for row in rows)

"""The command as a person types it."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from ledger.errors import BadInput
from ledger.sources import ROOT, source_files
from recipes.workflow import STAGES
from tests.validate.report.made import Made
from validate.report.__main__ import main


def report(*flags: str | Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-W", "error", "-m", "validate.report", *map(str, flags)]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


def test_a_page_is_written_and_a_failed_run_is_no_failed_report(broken: Made, tmp_path: Path) -> None:
    full = tmp_path / "full.json"
    full.write_text(json.dumps({"load_s": 6.0}))
    out = tmp_path / "new" / "report.html"
    done = report("--out", out, "--store", broken.store.root, "--full", full, broken.receipts)
    assert (done.returncode, done.stdout, done.stderr) == (0, f"report: {out}\n", "")
    assert "Full size" in out.read_text()
    assert [path.name for path in out.parent.iterdir()] == ["report.html"]


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["--out", "{tmp}", "--store", "{tmp}", "{tmp}"], "--out {tmp} is a folder; accepted: the path of a file"),
        (
            ["--out", "{tmp}/o", "--store", "{tmp}/none", "{tmp}"],
            "--store {tmp}/none is no folder; accepted: the store",
        ),
        (["--out", "{tmp}/o", "--store", "{tmp}", "{tmp}/x.json"], "RECEIPT: {tmp}/x.json does not lie in a run's"),
        (["--out", "{tmp}/o", "--store", "{tmp}"], "report: the following arguments are required: RECEIPT"),
    ],
)
def test_bad_input_is_one_sentence_and_no_file(
    flags: list[str], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.argv", ["report", *(flag.replace("{tmp}", str(tmp_path)) for flag in flags)])
    with pytest.raises(BadInput) as caught:
        main()
    assert str(caught.value).startswith(said.replace("{tmp}", str(tmp_path)))
    assert "\n" not in str(caught.value)
    assert list(tmp_path.iterdir()) == []


def test_the_workflow_watches_templates_and_styles() -> None:
    watched = source_files(STAGES["report"])
    assert {"validate/report/page.css", "validate/report/page.html.jinja", "validate/report/graph.py"} <= set(watched)
    assert "validate/bench/stage.py" not in watched


def test_a_run_that_failed_before_its_first_receipt_has_a_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out, receipts = tmp_path / "page.html", tmp_path / "results" / "night" / "receipts"
    monkeypatch.setattr("sys.argv", ["report", "--out", str(out), "--store", str(tmp_path), str(receipts)])
    for _ in range(2):
        assert main() == 0
        assert "No stage left a receipt: the run failed before the first one." in out.read_text()
        receipts.mkdir(parents=True, exist_ok=True)

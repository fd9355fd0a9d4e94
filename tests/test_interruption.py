"""A run of the line that is killed at any stage leaves nothing half-written, and the next run converges.

Each case kills the whole process group with SIGKILL while a named stage is at work, as the stage's own line on stdout
tells, checks everything under a final name, and runs on. A run takes about a minute: with one case per stage this is
a soak test of some 15 minutes.
"""

import hashlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from ledger.receipts import Receipt
from ledger.sources import ROOT

pytestmark = pytest.mark.soak

SMOKE = ROOT / "config" / "smoke.yaml"
STAGES = (
    "fetch",
    "weights",
    "tables",
    "lower",
    "compile",
    "assemble",
    "prompts",
    "oracle",
    "parity",
    "bench",
    "package",
)
# Times and figures differ from run to run, and with them the receipts that travel in a release and its card.
MEASURED = ("receipts/", "README.md", "release.json")


def command(folder: Path) -> list[str]:
    flags = ["--snakefile", str(ROOT / "Snakefile"), "--directory", str(folder), "--configfile", str(SMOKE)]
    profile = ["--workflow-profile", str(ROOT / "profiles" / "default")]
    return [sys.executable, "-m", "snakemake", *flags, *profile]


def start(folder: Path) -> subprocess.Popen[str]:
    environment = os.environ | {"PYTHONUNBUFFERED": "1"}
    return subprocess.Popen(
        command(folder),
        cwd=ROOT,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )


def kill_in(stage: str, folder: Path) -> None:
    """Run until `stage` says that it builds, then kill everything at once."""
    process = start(folder)
    assert process.stdout is not None
    with process.stdout:
        said = next((line for line in process.stdout if line.startswith(f"{stage}: building")), None)
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    assert said is not None, f"stage {stage} was never at work"


def finish(folder: Path) -> None:
    recover = [sys.executable, "-m", "recipes.recover", str(SMOKE)]
    subprocess.run(recover, cwd=folder, env=os.environ | {"PYTHONPATH": str(ROOT)}, check=True)
    with start(folder) as process:
        output, _ = process.communicate()
    assert process.returncode == 0, output[-3000:]


def whole(folder: Path) -> Iterator[Path]:
    """Every file under a final name, checked: receipts parse, objects are what their names say."""
    for path in sorted((folder / "results").rglob("*")):
        if not path.is_file() or "tmp" in path.relative_to(folder).parts or path.name.startswith("."):
            continue
        if path.parent.parent.name == "objects":
            assert hashlib.sha256(path.read_bytes()).hexdigest() == path.name
        elif "receipts" in path.parts and "release" not in path.parts:
            Receipt.read(path)
        elif path.suffix == ".json":
            json.loads(path.read_bytes())
        yield path


def digests(folder: Path) -> dict[str, str]:
    """What the run made, by path: outputs and facts of receipts, and the files of build and release."""
    made = {}
    for path in whole(folder):
        name = path.relative_to(folder).as_posix()
        if "/receipts/" in name and "/release/" not in name:
            receipt = Receipt.read(path)
            if receipt.stage not in ("bench", "package"):
                made[name] = receipt.digest
        elif "/build/" in name or ("/release/" in name and not any(part in name for part in MEASURED)):
            made[name] = hashlib.sha256(path.read_bytes()).hexdigest()
    return made


@pytest.fixture(scope="module")
def clean(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    folder = tmp_path_factory.mktemp("clean")
    finish(folder)
    made = digests(folder)
    assert any("/release/" in name for name in made)
    return made


@pytest.mark.parametrize("stage", STAGES)
def test_a_killed_run_converges(stage: str, tmp_path: Path, clean: dict[str, str]) -> None:
    kill_in(stage, tmp_path)
    before = digests(tmp_path)
    assert before.items() <= clean.items()
    finish(tmp_path)
    assert digests(tmp_path) == clean

"""The line of target inf2 on stand-ins of the Neuron SDK: everything up to the measurement, and then no release.

One run of config/demo-inf2.yaml as a person with an inf2 box would start it: some two minutes.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from config.loading import load
from config.sdk import PINS
from ledger.receipts import Receipt
from ledger.sources import ROOT
from tests.standins import environment

pytestmark = pytest.mark.soak

CONFIG = ROOT / "config" / "demo-inf2.yaml"
VARIANTS = {variant.name: variant for variant in load(CONFIG).checkpoints["demo"].variants}


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, int, str]:
    """The folder of the whole run, its exit code, and what it said."""
    folder = tmp_path_factory.mktemp("inf2")
    flags = ["--snakefile", str(ROOT / "Snakefile"), "--directory", str(folder), "--configfile", str(CONFIG)]
    profile = ["--workflow-profile", str(ROOT / "profiles" / "default")]
    done = subprocess.run(
        [sys.executable, "-m", "snakemake", *flags, *profile],
        cwd=ROOT,
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    return folder, done.returncode, done.stdout


def receipt(run: tuple[Path, int, str], variant: str, stage: str) -> Receipt:
    folder, _, said = run
    path = folder / "results" / "demo-inf2" / "receipts" / "demo" / variant / f"{stage}.json"
    assert path.exists(), said[-3000:]
    return Receipt.read(path)


@pytest.mark.parametrize("name", VARIANTS)
def test_every_variant_is_judged_and_measured(run: tuple[Path, int, str], name: str) -> None:
    assert receipt(run, name, "lint").verdict == "passed"
    parity = receipt(run, name, "parity")
    assert parity.verdict == "passed"
    assert parity.facts["mismatches"] == parity.facts["exemptions"] == []
    assert parity.facts["tokens"] > 100
    assert parity.facts["neuron_host"]["devices"] == 1
    assert receipt(run, name, "bench").measured["decode_tok_s"] > 0


@pytest.mark.parametrize("name", VARIANTS)
def test_a_receipt_says_who_compiled(run: tuple[Path, int, str], name: str) -> None:
    compiled = receipt(run, name, "compile")
    assert compiled.facts["builder"] == VARIANTS[name].builder
    packages = ["torch-neuronx", "neuronx-cc"] + ["neuronx-distributed"] * (VARIANTS[name].builder == "nxd")
    for package in packages:
        assert compiled.toolchain[package] == f"{PINS[package]}+standin"


def test_it_is_no_release(run: tuple[Path, int, str]) -> None:
    folder, code, said = run
    assert code == 1
    sentences = {line for line in said.splitlines() if line.startswith("error: ")}
    assert len(sentences) == 1
    assert "built with other than the Neuron SDK: torch-neuronx is 2.8.0.2.12.22436+standin" in sentences.pop()
    assert not (folder / "results" / "demo-inf2" / "release").exists()

"""What make would run, in a folder where nothing has been installed."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from ledger.sources import ROOT


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """The Makefile and the locks, and no environment."""
    shutil.copy(ROOT / "Makefile", tmp_path)
    shutil.copytree(ROOT / "envs", tmp_path / "envs")
    shutil.copytree(ROOT / "profiles", tmp_path / "profiles")
    return tmp_path


def printed(folder: Path, *words: str) -> list[str]:
    """The commands of a target, which are not run; nobody's environment is active."""
    command = ["env", "-u", "VIRTUAL_ENV", "make", "--dry-run", *words]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True)
    return done.stdout.replace("\\\n", "").splitlines()


@pytest.mark.parametrize(
    ("words", "installer", "runner"),
    [
        (["demo"], ".venv/bin/python", ".venv/bin/python"),
        (["run", "CONFIG=config/demo.yaml"], ".venv/bin/python", ".venv/bin/python"),
        (["run", "CONFIG=config/demo.yaml", "PROFILE=slurm"], ".venv/bin/python", ".venv/queues/bin/python"),
    ],
)
def test_what_is_installed_goes_into_an_environment_of_its_own(
    words: list[str], installer: str, runner: str, clone: Path
) -> None:
    lines = printed(clone, *words)
    (install,) = (line for line in lines if "-r envs/cpu.txt" in line)
    assert install.startswith(f"{installer} -m pip install ")
    assert any(line.startswith(f"{runner} -m recipes.recover config/demo.yaml --snakemake") for line in lines)


@pytest.mark.parametrize("profile", ["nope", "local", "slurm aws-batch"])
def test_a_profile_that_is_not_there_installs_nothing(profile: str, clone: Path) -> None:
    command = ["make", "run", "CONFIG=config/demo.yaml", f"PROFILE={profile}"]
    done = subprocess.run(command, cwd=clone, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert f"error: PROFILE is '{profile}'; accepted: one of " in done.stderr and "slurm" in done.stderr
    assert not (clone / ".venv").exists()


def test_a_run_of_nothing_installs_nothing(clone: Path) -> None:
    done = subprocess.run(["make", "run"], cwd=clone, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "error: CONFIG is missing; accepted: make run CONFIG=config/demo.yaml" in done.stderr
    assert not (clone / ".venv").exists()

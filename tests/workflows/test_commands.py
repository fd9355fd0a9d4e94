"""Every `run:` step is one command that this tree knows: a target of the Makefile, or a module with its flags."""

import re
import shlex
import subprocess
import sys

import pytest

from ledger.sources import ROOT
from tests.workflows.reading import Step, commands

COMMANDS = pytest.mark.parametrize("step", [pytest.param(step, id=step.run[:60]) for step in commands()])
VENV = ".venv/bin/python"
# The environment itself is made with these, which are no modules of ours.
THEIRS = {"venv", "pip"}
# What is neither: a night begins without the results of the one before.
PLAIN = ["rm -rf results/nightly"]


def words(step: Step) -> list[str]:
    """The words of a command, without what it sets for itself."""
    found = shlex.split(step.run)
    return found[1:] if "=" in found[0] else found


def called(step: Step) -> tuple[str, list[str], list[str]]:
    """Module, subcommand (none or one word) and the rest of a command that runs a module."""
    found = words(step)
    module, rest = found[2], found[3:]
    is_word = bool(rest) and re.fullmatch(r"[a-z]+", rest[0]) and module != "snakemake"
    return module, rest[:1] if is_word else [], rest[1:] if is_word else rest


@COMMANDS
def test_a_step_is_one_command(step: Step) -> None:
    assert len(step.run.splitlines()) == 1
    assert not re.search(r"[;&|<>`]|\$\(|\$\{\{", step.run)
    first = words(step)[:2]
    if step.run in PLAIN:
        return
    assert first in ([VENV, "-m"], ["python3.11", "-m"]) or first[0] == "make"


@COMMANDS
def test_a_target_is_one_of_the_makefile_and_a_module_knows_its_flags(step: Step) -> None:
    found = words(step)
    if step.run in PLAIN:
        return
    if found[0] == "make":
        # Prints what would be run, and fails for a target or a file that is not there.
        done = subprocess.run(["make", "--dry-run", *found[1:]], cwd=ROOT, capture_output=True, text=True, check=False)
        assert (done.returncode, done.stderr) == (0, "")
        assert re.search(rf"^{found[1]}\b.*:", (ROOT / "Makefile").read_text(), re.M)
        return
    module, subcommand, rest = called(step)
    command = [sys.executable, "-m", module, *subcommand, "--help"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    if module not in THEIRS:
        known = set(re.findall(r"--[a-z][a-z-]*", done.stdout))
        assert {word for word in rest if word.startswith("--")} <= known


@COMMANDS
def test_files_that_a_step_names_are_there(step: Step) -> None:
    for word in words(step):
        if re.fullmatch(r"(config|envs)/\S+", word):
            assert (ROOT / word).is_file(), word


def test_the_environment_of_a_night_is_the_one_of_the_makefile() -> None:
    (install,) = [step.run for step in commands() if " pip " in step.run]
    (index,) = re.findall(r"^NEURON_INDEX := (\S+)$", (ROOT / "Makefile").read_text(), re.M)
    assert f"--extra-index-url {index} " in install
    assert VENV.removesuffix("bin/python").rstrip("/") in next(s.run for s in commands() if " venv " in s.run)

"""The command, for every role: table, JSON, exit codes, on hosts with and without."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from ledger.errors import BadInput
from recipes.doctor.__main__ import main
from recipes.doctor.finding import Finding, lines_of
from tests.standins import environment

ROOT = Path(__file__).parents[3]
Done = subprocess.CompletedProcess[str]


def _doctor(*arguments: str, variables: dict[str, str] | None = None, flags: tuple[str, ...] = ()) -> Done:
    command = [sys.executable, *flags, "-m", "recipes.doctor", *arguments]
    return subprocess.run(command, cwd=ROOT, env=variables, capture_output=True, text=True, check=False)


def _findings(done: Done) -> dict[str, dict[str, Any]]:
    return {one["name"]: one for one in json.loads(done.stdout)["findings"]}


def test_this_machine_can_be_cpu() -> None:
    done = _doctor()
    assert done.returncode == 0 and not done.stderr, done.stdout
    assert done.stdout.splitlines()[0].split() == ["what", "found", "accepted"]


@pytest.mark.parametrize("role", ["inf2-build", "inf2-serve"])
def test_a_host_with_the_sdk_can_be_both(role: str, tmp_path: Path) -> None:
    done = _doctor("--role", role, "--json", variables=environment() | {"STANDIN_ROOT": str(tmp_path)})
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["works"] is True
    found = _findings(done)
    assert found["torch-neuronx"]["state"] == "ok"
    assert found["NeuronCores"]["found"].startswith("1 chips")
    if role == "inf2-serve":
        # What a container hides is not held against it.
        assert found["driver"]["state"] == found["aws-neuronx-runtime-lib"]["state"] == "unknown"
        assert found["memory to load"]["accepted"].endswith("GiB for gemma-4-12b-it/tp2-256")
    else:
        assert found["neuronx-cc"]["found"].startswith("2.23.6484.0")


def test_a_host_without_a_device_cannot_serve_and_can_build(tmp_path: Path) -> None:
    variables = environment() | {"STANDIN_ROOT": str(tmp_path), "STANDIN_DEVICES": "0"}
    done = _doctor("--role", "inf2-serve", variables=variables)
    assert done.returncode == 1 and done.stderr == "error: this machine cannot be inf2-serve: NeuronCores\n"
    assert "missing: NeuronCores: run on an inf2 instance with aws-neuronx-dkms 2.26 or newer" in done.stdout
    assert _doctor("--role", "inf2-build", variables=variables).returncode == 0


def test_where_nothing_is_installed_it_still_tells() -> None:
    done = _doctor("--role", "inf2-build", "--json", flags=("-S",), variables={"PATH": "/usr/bin:/bin"})
    assert done.returncode == 1
    (line,) = done.stderr.splitlines()
    assert line.startswith("error: this machine cannot be inf2-build: torch-neuronx, neuronx-cc, ")
    found = _findings(done)
    assert found["torch"]["state"] == "missing" and "numpy" in found["other packages"]["found"]
    assert found["memory, disk"]["found"] == "needs pydantic to count"
    assert found["libneuronpjrt-path on PATH"]["state"] == found["neuronx-cc on PATH"]["state"] == "missing"


def test_programs_beside_an_interpreter_that_is_not_on_path_are_told(tmp_path: Path) -> None:
    """The trap: the environment's python by its absolute path, and its bin folder not on PATH."""
    python = tmp_path / "bin/python"
    python.parent.mkdir()
    python.symlink_to(sys.executable)
    for name in ("libneuronpjrt-path", "neuronx-cc"):
        (tmp_path / "bin" / name).write_text("#!/bin/sh\n")
        (tmp_path / "bin" / name).chmod(0o755)
    variables = {"PATH": "/usr/bin:/bin", "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    command = [str(python), "-m", "recipes.doctor", "--role", "inf2-build", "--json"]
    done = subprocess.run(command, cwd=ROOT, env=variables, capture_output=True, text=True, check=False)
    found = _findings(done)
    assert found["libneuronpjrt-path on PATH"]["found"] == f"only {tmp_path}/bin/libneuronpjrt-path"
    assert found["neuronx-cc on PATH"]["how"] == f"activate the environment, or put {tmp_path}/bin first on PATH"


def test_advice_that_mends_several_things_is_said_once() -> None:
    lines = lines_of(
        [Finding(name, "missing", "no", "yes", "do this") for name in ("a", "b")] + [Finding("c", "ok", "")]
    )
    assert lines[-1] == "missing: a, b: do this" and len(lines) == 5


@pytest.mark.parametrize(
    ("argv", "sentence"),
    [
        (["--role", "gpu"], "recipes.doctor: argument --role: invalid choice: 'gpu'"),
        (["--role", "inf2-build", "--config", "nowhere.yaml"], "nowhere.yaml: cannot be read"),
        (["--role", "inf2-build", "--config", "config/demo.yaml"], "config/demo.yaml: no variant has target inf2"),
    ],
)
def test_what_is_not_accepted_is_one_sentence(monkeypatch: pytest.MonkeyPatch, argv: list[str], sentence: str) -> None:
    monkeypatch.chdir(ROOT)
    with pytest.raises(BadInput) as caught:
        main(argv)
    assert str(caught.value).startswith(sentence)

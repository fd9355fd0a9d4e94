"""What the environment of the stand-ins shows: versions, and the programs that an import needs (sections 2.5, 6.1)."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from tests.standins import environment
from tests.standins.conftest import Run


def test_every_version_says_standin(run: Run) -> None:
    found = run("""
        import json, torch_neuronx, libneuronxla
        from importlib.metadata import version
        names = ["torch-neuronx", "libneuronxla", "neuronx-cc", "neuronx-distributed"]
        print(json.dumps([torch_neuronx.__version__, libneuronxla.__version__, *map(version, names)]))
    """).value
    assert found == [
        "2.8.0.2.12.22436+standin",
        "2.2.15515.0+standin",
        "2.8.0.2.12.22436+standin",
        "2.2.15515.0+standin",
        "2.23.6484.0+standin",
        "0.17.26814+standin",
    ]


def test_compiler_is_found_by_bare_name_through_sh() -> None:
    done = subprocess.run(
        "neuronx-cc --version", shell=True, env=environment(), capture_output=True, text=True, check=True
    )
    assert done.stdout.startswith("NeuronX Compiler version 2.23.6484.0+standin\n")


def test_import_needs_the_bin_folder_on_path(run: Run) -> None:
    done = run("import torch_neuronx", PATH=os.defpath)
    assert done.code == 1
    assert "ImportError: libneuronpjrt-path is not on PATH" in done.err


def test_environment_keeps_what_it_is_given() -> None:
    found = environment({"PATH": "/somewhere", "PYTHONPATH": "/else", "KEEP": "1"})
    assert found["KEEP"] == "1"
    assert found["PATH"].endswith(":/somewhere")
    assert found["PYTHONPATH"].endswith(":/else")
    assert Path(found["PATH"].split(":")[0], "neuronx-cc").is_file()

"""The stand-in as a program of its own, as demos start it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from huggingface_hub import HfApi


def test_program_says_where_it_is_and_keeps_its_state(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tests.hub", "--root", str(tmp_path / "hub")]
    for expected in (False, True):
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            try:
                assert process.stdout
                lines = [process.stdout.readline().strip().split("=", 1) for _ in range(3)]
                environment = dict(lines)
                api = HfApi(endpoint=environment["HF_ENDPOINT"], token=environment["HF_TOKEN"])
                assert environment["HF_HUB_DISABLE_XET"] == "1"
                assert api.repo_exists("maker/model") is expected
                api.create_repo("maker/model", exist_ok=True)
            finally:
                process.terminate()


def test_wrong_flag_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    command = [sys.executable, "-m", "tests.hub", "--root", str(tmp_path / "file")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr.startswith("error: --root: ")

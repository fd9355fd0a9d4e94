"""A machine that runs its user data for real: bash on this host, with stand-ins of the programs that the image has.

    aws        `s3 cp` to the moto server, `ecr get-login-password`
    docker     `pull` and `login` are noted; `run` runs the command here, in a folder of links to the project
    shutdown   notes its arguments; `now` is the end of the machine
    systemctl  says what `state` holds: running, where it is not there

Every call is a line of `calls`, in the order in which they came.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from ledger.sources import ROOT

_AWS = """\
import sys
import boto3
words = [word for word in sys.argv[1:] if not word.startswith("--only")]
if words[:2] == ["ecr", "get-login-password"]:
    print("secret")
    sys.exit()
assert words[:2] == ["s3", "cp"], words
data = sys.stdin.buffer.read() if words[2] == "-" else open(words[2], "rb").read()
bucket, _, key = words[3].removeprefix("s3://").partition("/")
boto3.client("s3").put_object(Bucket=bucket, Key=key, Body=data)
"""
_DOCKER = """\
echo "docker $*" >> "$BOX/calls"
[[ ! -e "$BOX/fail-$1" ]] || exit 1
[[ "$1" == run ]] || exit 0
while [[ "$1" != *@sha256:* ]]; do shift; done
shift
cd "$BOX/project"
export PATH="$BOX_PATH"
"$@"
"""
_SHUTDOWN = """\
echo "shutdown $*" >> "$BOX/calls"
"""
_SYSTEMCTL = """\
cat "$BOX/state" 2>/dev/null || echo running
"""
_NOTED = """\
echo "aws $*" >> "$BOX/calls"
exec "$BOX_PYTHON" "$BOX/aws.py" "$@"
"""
_PARTS = ("Makefile", "config", "envs", "ledger", "publish", "recipes", "serve", "validate")


class Box:
    """One machine in a folder."""

    def __init__(self, folder: Path, variables: dict[str, str]) -> None:
        self.folder = folder
        (folder / "bin").mkdir(parents=True)
        (folder / "aws.py").write_text(_AWS)
        for name, text in {"docker": _DOCKER, "shutdown": _SHUTDOWN, "systemctl": _SYSTEMCTL, "aws": _NOTED}.items():
            path = folder / "bin" / name
            path.write_text(f"#!/bin/bash\n{text}")
            path.chmod(0o755)
        (folder / "project").mkdir()
        for name in _PARTS:
            (folder / "project" / name).symlink_to(ROOT / name)
        before = variables.get("PATH", os.environ["PATH"])
        inside = f"{Path(sys.executable).parent}:{before}"
        own = {"BOX": str(folder), "BOX_PATH": inside, "BOX_PYTHON": sys.executable}
        own["PER_BOOT"] = str(folder / "per-boot")
        own["PATH"] = f"{folder / 'bin'}:{before}"
        self._variables = {**os.environ, **variables, **own}

    def start(self, script: str) -> subprocess.Popen[bytes]:
        """Run the user data, as cloud-init does."""
        path = self.folder / "user-data"
        path.write_text(script)
        return subprocess.Popen(
            ["bash", str(path)],
            env=self._variables,
            cwd=self.folder,
            stdin=subprocess.DEVNULL,
            start_new_session=True,
        )

    def calls(self) -> list[str]:
        """What was called, in order."""
        path = self.folder / "calls"
        return path.read_text().splitlines() if path.is_file() else []

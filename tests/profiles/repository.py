"""A copy of the repository to run a profile in, with a configuration that takes seconds."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import boto3
import yaml

from config.loading import load
from ledger.receipts import Receipt
from ledger.sources import PACKAGES, ROOT
from recipes.workflow import Plan
from tests.profiles.containers import QUEUES

SMOKE = "config/smoke.yaml"


@dataclass
class Repository:
    """The copy, under git as a profile without a shared file system wants it."""

    folder: Path
    env: dict[str, str] = field(default_factory=dict)

    @classmethod
    def at(cls, folder: Path) -> Repository:
        """Make the copy in `folder`, which is not there yet."""
        skip = shutil.ignore_patterns("__pycache__")
        for name in (*PACKAGES, "envs", "profiles"):
            shutil.copytree(ROOT / name, folder / name, ignore=skip)
        for name in ("Snakefile", "LICENSE", "NOTICE"):
            shutil.copy(ROOT / name, folder / name)
        for command in (["init", "--quiet"], ["add", "."]):
            subprocess.run(["git", *command], cwd=folder, check=True)
        return cls(folder)

    def configure(self, changes: Mapping[str, Any], base: str = SMOKE) -> str:
        """A configuration: `base` with other values at its root, and a checkpoint that is trained for one step."""
        given = yaml.safe_load((ROOT / base).read_text()) | dict(changes)
        for checkpoint in given["checkpoints"].values():
            if checkpoint["source"]["kind"] == "tiny":
                checkpoint["source"]["steps"] = 1
        path = self.folder / "config" / "given.yaml"
        path.write_text(yaml.safe_dump(given))
        subprocess.run(["git", "add", "."], cwd=self.folder, check=True)
        return "config/given.yaml"

    def start(self, *flags: str) -> subprocess.Popen[str]:
        """Snakemake with its plugins, at work in the copy; stderr is in stdout."""
        command = [str(QUEUES / "python"), "-m", "snakemake", *flags]
        return subprocess.Popen(
            command,
            cwd=self.folder,
            env=os.environ | self.env,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )

    def run(self, *flags: str) -> tuple[int, str]:
        """Exit code of snakemake, and all that it said."""
        with self.start(*flags) as process:
            said, _ = process.communicate()
        return process.returncode, said

    def call(self, module: str, *flags: str) -> str:
        """What a module of the copy says on stdout."""
        command = [str(QUEUES / "python"), "-m", module, *flags]
        env = os.environ | self.env
        return subprocess.run(command, cwd=self.folder, env=env, text=True, stdout=subprocess.PIPE, check=True).stdout

    def pretend(self, config: str) -> list[str]:
        """Make empty files of all receipts before those of parity and bench; returns their paths."""
        listed = Plan(load(self.folder / config)).report_inputs()
        made = [path for path in listed if Path(path).stem not in ("parity", "bench")]
        for path in (self.folder / name for name in made):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.touch()
            # None is newer than another.
            os.utime(path, (0, 0))
        return made

    def pretend_in(self, bucket: str, config: str) -> None:
        """The same files in a bucket, below files/."""
        client = boto3.client("s3")
        for path in self.pretend(config):
            client.put_object(Bucket=bucket, Key=f"files/{path}", Body=b"")
        client.close()

    def planned(self, *flags: str) -> dict[str, int]:
        """Jobs by rule that a dry run plans."""
        code, said = self.run("--dry-run", *flags)
        assert code == 0, said
        table = said.partition("Job stats:\n")[2].partition("\n\n")[0]
        return {name: int(count) for name, count in re.findall(r"^(\w+) +(\d+)$", table, re.M) if name != "total"}


def made(receipts: Path) -> dict[str, dict[str, str]]:
    """What each receipt below a folder says was made: sha256 by name, by the receipt's place."""
    found = {path.relative_to(receipts).as_posix(): Receipt.read(path) for path in sorted(receipts.rglob("*.json"))}
    return {place: {name: ref.sha256 for name, ref in one.outputs.items()} for place, one in found.items()}

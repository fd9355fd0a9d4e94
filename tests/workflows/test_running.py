"""The steps of a night on this machine, in the order of the file: AWS and the Hub are stand-ins, all else is real.

Left out is what makes the environment, as AWS's package index is on no loopback; the build is a dry run, as it takes a
night; and the doctor may say that the machine is not fit. The steps of ci.yml are those of .ci/run: here they are only
looked up (test_commands.py).
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest

from ledger.sources import PACKAGES, ROOT
from tests.aws import REGION, Aws
from tests.hub import Hub
from tests.validate.report.made import MISMATCH, Made
from tests.validate.report.test_page import Parsed
from tests.workflows.reading import steps
from validate.inf2 import machines as machine

REPO = "google/gemma-4-E2B-it"
PINNED = "9dbdf8a839e4e9e0eb56ed80cc8886661d3817cf"
LEFT_OUT = (" -m venv ", " -m pip ", "make venv")
OURS, THEIRS = "s3://my-bucket/foundry/nightly-runs", "s3://my-bucket/runs"


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A copy of what the steps use, with this environment as its own."""
    folder = tmp_path / "tree"
    for name in (*PACKAGES, "envs", "profiles"):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("Snakefile", "Makefile", "LICENSE"):
        shutil.copy(ROOT / name, folder / name)
    (folder / ".venv").symlink_to(sys.prefix)
    return folder


@pytest.fixture
def hub(tmp_path: Path) -> Iterator[Hub]:
    """The Hub with the repository that is pinned, which has moved on since."""
    with Hub(tmp_path / "hub") as one:
        repository = one.holdings.create(REPO)
        head = repository.refs("branches")["main"]
        entry = repository.objects.keep(b"{}")
        oid = repository.advance("main", repository.tree(head) | {"config.json": entry}, "pinned", "", head)
        commits = repository.folder / "commits"
        shutil.copy(commits / f"{oid}.json", commits / f"{PINNED}.json")
        changed = repository.tree(oid) | {"config.json": repository.objects.keep(b'{"a": 1}')}
        repository.advance("main", changed, "moved on", "", oid)
        yield one


class Night:
    """Runs the steps as GitHub does: job after job, and behind a step that failed only those that always run."""

    def __init__(self, tree: Path, environment: dict[str, str]) -> None:
        self.tree = tree
        self.said: dict[str, str] = {}
        self.failed: list[str] = []
        self._environment = {**os.environ, **environment}

    def run(self, build: str) -> None:
        """All of it; `build` takes the place of the step that builds, and {} in it is what that would have run."""
        for job in ("matrix", "afterwards"):
            so_far = len(self.failed)
            for step in steps("nightly", job):
                if not step.run or any(words in step.run for words in LEFT_OUT):
                    continue
                if len(self.failed) > so_far and not step.always:
                    continue
                command = build.replace("{}", step.run) if " snakemake " in step.run else step.run
                # Without the SDK the doctor says so, by its exit code too.
                self._step(f"{command} || [[ $? -eq 2 ]]" if "make doctor" in command else command)

    @property
    def page(self) -> str:
        """What the report of the night says."""
        return Parsed(self.tree / "results" / "nightly" / "nightly.html").text()

    def of(self, words: str) -> str:
        """What the step said whose command holds these words."""
        (found,) = [said for command, said in self.said.items() if words in command]
        return found

    def _step(self, command: str) -> None:
        shell = ["bash", "--noprofile", "--norc", "-euo", "pipefail", "-c", command]
        done = subprocess.run(shell, cwd=self.tree, env=self._environment, capture_output=True, text=True, check=False)
        self.said[command] = done.stdout + done.stderr
        if done.returncode:
            self.failed.append(command)


def machines() -> dict[str, str]:
    """What became of each machine, by what its runs are called."""
    client = boto3.client("ec2", region_name=REGION)
    found = [one for each in client.describe_instances()["Reservations"] for one in each["Instances"]]
    client.close()
    return {one["Tags"][0]["Value"]: one["State"]["Name"] for one in found}


def leave_a_machine(runs: str) -> None:
    """A machine that somebody's runs left behind."""
    client = boto3.client("ec2", region_name=REGION)
    tags: Any = [{"ResourceType": "instance", "Tags": [{"Key": machine.RUNS, "Value": runs}]}]
    image = client.describe_images()["Images"][0]["ImageId"]
    client.run_instances(ImageId=image, InstanceType="inf2.xlarge", MinCount=1, MaxCount=1, TagSpecifications=tags)
    client.close()


@pytest.fixture
def night(tree: Path, hub: Hub, aws: Aws) -> Night:
    """A night that finds a bucket, and two machines that were left behind, one of them its own."""
    client = boto3.client("s3")
    client.create_bucket(Bucket="my-bucket")
    client.close()
    leave_a_machine(OURS)
    leave_a_machine(THEIRS)
    return Night(tree, aws.env | hub.environment)


def test_a_night_step_by_step(night: Night) -> None:
    stale = night.tree / "results" / "nightly" / "upstream.json"
    stale.parent.mkdir(parents=True)
    stale.write_text("of yesterday")
    # What a night would have left.
    Made(night.tree / "kept", name="nightly").variant("512-128")
    night.run(build="cp -a kept/results/. results/ && {} --dry-run")
    assert night.failed == []
    assert "neuronx-cc" in night.of("make doctor")
    assert f"{REPO} moved from {PINNED[:12]} to " in night.of("recipes.hub.upstream")
    jobs = dict(re.findall(r"^(\w+) +(\d+)$", night.of("snakemake"), re.M))
    assert (jobs["compile"], jobs["rented"], jobs["stage"], jobs["verify"]) == ("13", "13", "3", "3")
    assert not {"parity", "parity_inf2", "bench", "bench_inf2", "promote"} & jobs.keys()
    assert f"Upstream: gemma-4-e2b-it: {REPO} moved from {PINNED[:12]} to " in night.page
    found = json.loads((night.tree / "results" / "nightly" / "upstream.json").read_text())
    files = found["checkpoints"]["gemma-4-e2b-it"]["files"]
    assert [one["name"] for one in files] == ["config.json"]
    assert machines() == {OURS: "terminated", THEIRS: "running"}
    assert "my-bucket/foundry/store holds nothing" in night.of("collect")


def test_a_night_that_failed_is_told_and_ends_its_machines(night: Night, hub: Hub) -> None:
    Made(night.tree / "kept", name="nightly").variant("512-128", parity={"mismatches": [MISMATCH]})
    hub.repository(REPO).change(private=True)
    build = "cp -a kept/results/. results/ && false"
    night.run(build)
    assert night.failed == [build]
    assert "Failed: 512-128/parity." in night.page
    assert f"Upstream: gemma-4-e2b-it: unknown: source.repo {REPO} is not at " in night.page
    assert machines() == {OURS: "terminated", THEIRS: "running"}

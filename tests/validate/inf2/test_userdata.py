"""The user data: small, valid, and run by bash against stand-ins; whatever happens, it ends with the machine's end."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

import boto3
import pytest

from tests.aws import Aws
from tests.validate.inf2.box import Box
from tests.validate.inf2.world import cloud
from validate.inf2.folder import Folder
from validate.inf2.userdata import MOST, userdata

ECR = "123456789012.dkr.ecr.us-west-2.amazonaws.com/foundry"


def script(bucket: str, image: str = "registry.example/foundry") -> str:
    section = cloud(runs=f"s3://{bucket}/runs", image=f"{image}@sha256:{'0' * 64}")
    folder = Folder(boto3.client("s3"), section.runs).below("run")
    return userdata(section, folder, "us-east-1", attempt=3, minutes=95, every=1)


def left(bucket: str, name: str) -> str:
    return str(boto3.client("s3").get_object(Bucket=bucket, Key=f"runs/run/{name}")["Body"].read().decode())


@pytest.fixture
def box(tmp_path: Path, aws: Aws) -> Box:
    """A machine whose container has a project with one target."""
    made = Box(tmp_path / "box", {})
    (made.folder / "project/Makefile").unlink()
    (made.folder / "project/Makefile").write_text("hardware:\n\t@echo judging $(JOB); ./work\n")
    work(made, "exit 0")
    return made


def work(box: Box, command: str) -> None:
    path = box.folder / "project/work"
    path.write_text(f"#!/bin/bash\n{command}\n")
    path.chmod(0o755)


def test_it_is_small_and_bash_takes_it(bucket: str) -> None:
    text = script(bucket)
    assert len(text.encode()) < MOST / 2
    assert subprocess.run(["bash", "-n"], input=text, text=True, check=False).returncode == 0


def test_the_timer_comes_first_and_the_end_last(box: Box, bucket: str) -> None:
    assert box.start(script(bucket)).wait(60) == 0
    calls = box.calls()
    assert calls[0] == "shutdown -h +95"
    assert calls[-1] == "shutdown -h now"
    assert left(bucket, "status/3.json") == '{"code": 0}\n'
    assert "judging s3://foundry-test/runs/run/job.json" in left(bucket, "logs/3.txt")
    (run,) = [one for one in calls if one.startswith("docker run")]
    assert " --ipc=host " in run and f"foundry@sha256:{'0' * 64} make hardware JOB=s3://" in run
    # The log is there before the status, which is what ends the wait for it.
    sent = [one.split()[-1] for one in calls if one.startswith("aws s3 cp")]
    assert sent[-2:] == [f"s3://{bucket}/runs/run/logs/3.txt", f"s3://{bucket}/runs/run/status/3.json"]


def test_a_run_that_fails_leaves_its_code_and_ends_the_machine(box: Box, bucket: str) -> None:
    work(box, "echo error: no driver; exit 7")
    box.start(script(bucket)).wait(60)
    assert box.calls()[-1] == "shutdown -h now"
    assert left(bucket, "status/3.json") == '{"code": 2}\n', "make's own"
    assert "error: no driver\n" in left(bucket, "logs/3.txt")


def test_an_image_that_cannot_be_pulled_ends_the_machine(box: Box, bucket: str) -> None:
    (box.folder / "fail-pull").touch()
    box.start(script(bucket)).wait(60)
    assert [one.split()[1] for one in box.calls() if one.startswith("docker")] == ["pull"] * 3
    assert box.calls()[-1] == "shutdown -h now"
    assert left(bucket, "status/3.json") == '{"code": 1}\n'
    assert "error: the image registry.example/foundry@sha256:" in left(bucket, "logs/3.txt")


def test_a_machine_that_is_told_to_stop_still_leaves_its_log(box: Box, bucket: str) -> None:
    """As systemd does when the timer runs out, or when AWS takes the machine back."""
    work(box, f"touch {box.folder}/at-work; sleep 30")
    machine = box.start(script(bucket))
    while not (box.folder / "at-work").exists():
        assert machine.poll() is None
    os.killpg(machine.pid, signal.SIGTERM)
    machine.wait(60)
    assert box.calls()[-1] == "shutdown -h now"
    assert left(bucket, "logs/3.txt").startswith("machine: pulling")
    # It is no end of its own: the caller asks EC2 why the machine is gone.
    assert not any("status/" in call for call in box.calls())


def test_a_container_that_ends_with_its_machine_is_no_end_of_its_own(box: Box, bucket: str) -> None:
    """Docker hears of the shutdown before the script does."""
    (box.folder / "state").write_text("stopping")
    work(box, "exit 143")
    box.start(script(bucket)).wait(60)
    assert box.calls()[-1] == "shutdown -h now"
    assert not any("status/" in call for call in box.calls())


def test_a_machine_that_starts_again_ends(box: Box, bucket: str) -> None:
    box.start(script(bucket)).wait(60)
    again = box.folder / "per-boot" / "neff-foundry"
    before = len(box.calls())
    subprocess.run([again], env={"PATH": f"{box.folder / 'bin'}:/bin", "BOX": str(box.folder)}, check=True)
    assert box.calls()[before:] == ["shutdown -h now"]


def test_a_private_registry_of_aws_is_logged_in_to(box: Box, bucket: str) -> None:
    box.start(script(bucket, ECR)).wait(60)
    calls = box.calls()
    assert "aws ecr get-login-password --region us-west-2" in calls
    assert f"docker login --username AWS --password-stdin {ECR.partition('/')[0]}" in calls

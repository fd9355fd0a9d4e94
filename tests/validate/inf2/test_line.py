"""The line of target inf2 on a host without NeuronCores: snakemake rents, and a machine's user data really runs.

EC2 and S3 are a moto server; the machine is bash here with stand-ins of what its image has, and the container is
this environment with the stand-ins of the Neuron SDK. The receipts come back through S3. Some two minutes.
"""

from __future__ import annotations

import base64
import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest
import yaml

from ledger.receipts import Receipt
from ledger.sources import ROOT
from tests.aws import Aws
from tests.standins import environment
from tests.validate.inf2.box import Box
from tests.validate.inf2.world import cloud
from validate.inf2.sweep import main as sweep

pytestmark = pytest.mark.soak


class Ec2:
    """Starts every machine that is asked for, until it is left: a box for each, and its end when it shuts down."""

    def __init__(self, folder: Path, variables: dict[str, str]) -> None:
        self.boxes: dict[str, Box] = {}
        self._folder, self._variables = folder, variables
        self._client = boto3.client("ec2")
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._serve)

    def __enter__(self) -> Ec2:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def alive(self) -> list[str]:
        """Ids of the machines that are not terminated."""
        found = [one for page in self._client.describe_instances()["Reservations"] for one in page["Instances"]]
        return [one["InstanceId"] for one in found if one["State"]["Name"] != "terminated"]

    def _serve(self) -> None:
        running: dict[str, subprocess.Popen[bytes]] = {}
        while not self._over.wait(0.2) or running:
            for instance in self.alive():
                if instance not in self.boxes:
                    box = self.boxes[instance] = Box(self._folder / instance, self._variables)
                    told = self._client.describe_instance_attribute(InstanceId=instance, Attribute="userData")
                    running[instance] = box.start(base64.b64decode(told["UserData"]["Value"]).decode())
            for instance, process in list(running.items()):
                if process.poll() is not None:
                    assert self.boxes[instance].calls()[-1] == "shutdown -h now"
                    self._client.terminate_instances(InstanceIds=[instance])
                    del running[instance]


def configuration(folder: Path, bucket: str) -> Path:
    """The smallest configuration of target inf2, of one variant, with a shared store and machines to rent."""
    section: dict[str, Any] = yaml.safe_load((ROOT / "config/smoke-inf2.yaml").read_text())
    demo = section["checkpoints"]["demo"]
    demo["variants"] = [one for one in demo["variants"] if one["name"] == "nxd-tp2"]
    rents = cloud(runs=f"s3://{bucket}/runs", regions={"us-east-1": {}})
    section |= {"store": f"s3://{bucket}/store", "inf2": json.loads(rents.model_dump_json())}
    path = folder / "rented.yaml"
    path.write_text(yaml.safe_dump(section))
    return path


def snakemake(folder: Path, config: Path) -> subprocess.CompletedProcess[str]:
    """The line in a folder, up to its measurement, with the stand-ins of the SDK for what compiles."""
    flags = ["--snakefile", str(ROOT / "Snakefile"), "--directory", str(folder), "--configfile", str(config)]
    command = [sys.executable, "-m", "snakemake", "measured", *flags, "--cores", "2", "--resources", "mem_mb=20000"]
    return subprocess.run(
        command, cwd=ROOT, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
    )


@pytest.fixture
def ec2(tmp_path: Path, aws: Aws, bucket: str) -> Iterator[Ec2]:
    """One region with a base image."""
    client = boto3.client("ec2")
    boto3.client("iam").create_instance_profile(InstanceProfileName="foundry")
    image = client.describe_images(Owners=["amazon"])["Images"][0]["ImageId"]
    boto3.client("ssm").put_parameter(Name="/foundry/base", Value=image, Type="String")
    # One question of the probe, the smallest graph: all of them take a quarter of an hour.
    variables = environment() | {"PROBE": "--only driver-version", "STANDIN_ROOT": str(tmp_path / "host")}
    with Ec2(tmp_path / "machines", variables) as made:
        yield made
    assert made.alive() == []


def test_real_receipts_come_back_from_a_rented_machine(
    ec2: Ec2, tmp_path: Path, bucket: str, capsys: pytest.CaptureFixture[str]
) -> None:
    config = configuration(tmp_path, bucket)
    first = tmp_path / "first"
    first.mkdir()
    done = snakemake(first, config)
    assert done.returncode == 0, done.stdout[-5000:]
    receipts = first / "results/smoke-inf2/receipts/demo/nxd-tp2"
    parity, bench = Receipt.read(receipts / "parity.json"), Receipt.read(receipts / "bench.json")
    assert parity.verdict == "passed" and parity.facts["mismatches"] == [] and parity.facts["tokens"] > 50
    assert parity.facts["neuron_host"]["devices"] == 1, "of the machine: the caller has none"
    assert bench.inputs["parity"] == parity.digest and bench.measured["decode_tok_s"] > 0
    assert "| parity: passed in" in done.stdout and "| bench: done in" in done.stdout
    assert len(ec2.boxes) == 1
    files = boto3.client("s3").list_objects_v2(Bucket=bucket, Prefix="runs/")["Contents"]
    assert any(one["Key"].startswith("runs/probes/") for one in files)

    # A second machine with an empty disk rents nothing.
    second = tmp_path / "second"
    second.mkdir()
    done = snakemake(second, config)
    assert done.returncode == 0, done.stdout[-5000:]
    assert Receipt.read(second / "results/smoke-inf2/receipts/demo/nxd-tp2/parity.json") == parity
    assert len(ec2.boxes) == 1

    assert sweep([str(config)]) == 0
    assert "us-east-1: nothing is left" in capsys.readouterr().out

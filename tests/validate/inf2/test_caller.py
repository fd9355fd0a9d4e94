"""The command `run` as a process of its own, against a moto server: kill -9, signals, a failed gate, a second call.

The machine is played by the test, which reads the order from S3 as a machine does.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest

from config.geometry import geometry_path
from config.models import Variant
from ledger.digest import sha256_bytes
from ledger.receipts import Receipt
from ledger.sources import ROOT
from ledger.store import open_store
from ledger.store.local import object_name
from tests.aws import Aws
from tests.validate.inf2.orders import answer, data, receipt
from tests.validate.inf2.world import cloud
from validate.inf2.machines import RUN, RUNS
from validate.inf2.order import Order, failed_name, receipt_name

RECIPE = {
    "parity": {"dtype": "float32", "epsilon": 0.1, "logprob_tolerance": 0.001},
    "bench": {"dtype": "float32", "prompt_tokens": 8, "new_tokens": 8, "rounds": 1},
}


class Site:
    """A folder with the receipts that a run starts from, a bucket with their objects, and EC2 in one region."""

    def __init__(self, folder: Path, bucket: str) -> None:
        self.folder, self.bucket = folder, bucket
        self.ec2 = boto3.client("ec2")
        self.s3 = boto3.client("s3")
        boto3.client("iam").create_instance_profile(InstanceProfileName="foundry")
        image = self.ec2.describe_images(Owners=["amazon"])["Images"][0]["ImageId"]
        boto3.client("ssm").put_parameter(Name="/foundry/base", Value=image, Type="String")
        self.section = cloud(runs=f"s3://{bucket}/runs", regions={"us-east-1": {}})
        self.store = f"s3://{bucket}/store"
        self._receipts()

    def start(self) -> subprocess.Popen[str]:
        """The command, at work."""
        known = ("fetch", "assemble", "oracle", "prompts")
        inputs = [word for name in known for word in ("--input", f"{name}={self.folder / name}.json")]
        outs = [word for name in ("parity", "bench") for word in (f"--{name}", str(self.folder / f"out/{name}.json"))]
        command = [sys.executable, "-m", "validate.inf2", "run", "--recipe", json.dumps(RECIPE), *inputs, *outs]
        command += [
            "--cloud",
            self.section.model_dump_json(),
            "--store",
            self.store,
            "--cache",
            str(self.folder / "cache"),
        ]
        command += ["--out", str(self.folder / "out/rented.json"), "--poll", "0.1"]
        return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)

    def machines(self) -> list[dict[str, Any]]:
        """The machines that are not terminated, and not those of another test."""
        found = self.ec2.describe_instances(Filters=[{"Name": f"tag:{RUNS}", "Values": [self.section.runs]}])
        every = [one for reservation in found["Reservations"] for one in reservation["Instances"]]
        return [dict(one) for one in every if one["State"]["Name"] != "terminated"]

    def order(self) -> Order:
        """What the machine is asked to do."""
        (machine,) = self.machines()
        run = next(tag["Value"] for tag in machine["Tags"] if tag["Key"] == RUN)
        body = self.s3.get_object(Bucket=self.bucket, Key=f"runs/{run}/job.json")["Body"].read()
        return Order.model_validate_json(body)

    def leave(self, order: Order, name: str, made: Receipt) -> None:
        """What the machine leaves on S3."""
        self.s3.put_object(Bucket=self.bucket, Key=f"runs/{order.run}/{name}", Body=data(made))

    def _receipts(self) -> None:
        store = open_store(self.store, self.folder / "cache")
        config = json.loads(geometry_path("tiny").read_text())
        kept = receipt("fetch", outputs={"config.json": store.put_json(config)}, key=sha256_bytes(b"fetch"))
        store.record_action(kept)
        variant = Variant.model_validate({"name": "tiny", "kv_max": 64, "kv_bucket": 8, "target": "inf2"})
        recipe = {"checkpoint": "demo", "variant": variant.model_dump(mode="json")}
        # In the folder of this machine alone, as after the bucket lost it.
        self.manifest = store.put_bytes(b"{}")
        made = receipt("assemble", recipe=recipe, outputs={"manifest.json": self.manifest})
        for name, one in {"fetch": kept, "assemble": made}.items():
            one.write(self.folder / f"{name}.json")
        for name in ("oracle", "prompts"):
            receipt(name).write(self.folder / f"{name}.json")


@pytest.fixture
def site(tmp_path: Path, aws: Aws, bucket: str) -> Iterator[Site]:
    """A site, in which nothing may run at the end of a test."""
    made = Site(tmp_path, bucket)
    yield made
    assert made.machines() == []


def line_with(caller: subprocess.Popen[str], text: str) -> list[str]:
    """What the caller says up to a line with `text`."""
    assert caller.stdout
    said: list[str] = []
    for line in caller.stdout:
        said.append(line)
        if text in line:
            return said
    raise AssertionError("".join(said))


def ended(caller: subprocess.Popen[str]) -> tuple[int, str]:
    """Its exit code, and the rest of what it has said."""
    said, _ = caller.communicate(timeout=120)
    return caller.returncode, said


def test_a_caller_that_is_killed_is_followed_by_one_that_goes_on(site: Site) -> None:
    first = site.start()
    line_with(first, "spot inf2.xlarge")
    first.send_signal(signal.SIGKILL)
    ended(first)
    (machine,) = site.machines()
    there = site.s3.head_object(Bucket=site.bucket, Key=f"store/{object_name(site.manifest)}")
    assert there["ContentLength"] == site.manifest.bytes

    second = site.start()
    line_with(second, f"goes on with {machine['InstanceId']}")
    order = site.order()
    site.leave(order, receipt_name("parity"), answer(order, "parity"))
    site.leave(order, receipt_name("bench"), answer(order, "bench"))
    code, said = ended(second)
    assert code == 0, said
    assert Receipt.read(site.folder / "out/parity.json") == answer(order, "parity")
    assert Receipt.read(site.folder / "out/bench.json") == answer(order, "bench")
    assert Receipt.read(site.folder / "out/rented.json").verdict == "passed"

    # And again, on a machine with an empty disk: found, and written anew.
    for path in (site.folder / "out").iterdir():
        path.unlink()
    third = site.start()
    code, said = ended(third)
    assert code == 0 and "rented: unchanged" in said, said
    assert Receipt.read(site.folder / "out/bench.json") == answer(order, "bench")


@pytest.mark.parametrize(
    ("blow", "code"),
    [
        (signal.SIGTERM, 143),
        pytest.param(signal.SIGINT, 130, marks=pytest.mark.soak),
        pytest.param(signal.SIGHUP, 129, marks=pytest.mark.soak),
    ],
)
def test_a_signal_terminates_the_machine_first(site: Site, blow: signal.Signals, code: int) -> None:
    caller = site.start()
    line_with(caller, "spot inf2.xlarge")
    assert len(site.machines()) == 1
    os.kill(caller.pid, blow)
    found, said = ended(caller)
    assert found == code, said


def test_a_failed_parity_is_a_failed_gate_here_too(site: Site) -> None:
    caller = site.start()
    line_with(caller, "spot inf2.xlarge")
    order = site.order()
    failed = answer(order, "parity", "failed")
    site.leave(order, failed_name("parity"), failed)
    code, said = ended(caller)
    assert code == 1, said
    assert "error: demo/tiny: parity failed on a rented machine, see " in said
    assert Receipt.read(site.folder / "out/parity.failed.json") == failed
    assert not (site.folder / "out/parity.json").exists()
    assert Receipt.read(site.folder / "out/rented.failed.json").verdict == "failed"

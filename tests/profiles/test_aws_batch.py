"""The profile aws-batch against a stand-in of the service: what is registered, and jobs that share only a bucket."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest

from ledger.store.remote import Bucket
from tests.aws import Aws
from tests.profiles.batch import Batch
from tests.profiles.containers import Host
from tests.profiles.repository import Repository, made
from tests.profiles.service import serving

RECEIPTS = "results/smoke/receipts/demo"


@pytest.fixture
def batch(containers: Host, repository: Repository) -> Iterator[Batch]:
    service = Batch(containers)
    with serving(service) as address:
        repository.env["AWS_ENDPOINT_URL_BATCH"] = address
        yield service


def flags(bucket: str, config: str) -> tuple[str, ...]:
    profile = ("--workflow-profile", "profiles/aws-batch", "--default-storage-prefix", f"s3://{bucket}/files")
    return (*profile, "--configfile", config)


def asked(batch: Batch, job: str) -> dict[str, str]:
    """What a job's definition asks for, by kind."""
    wanted = batch.definitions[batch.jobs[job]["jobDefinition"]]["containerProperties"]["resourceRequirements"]
    return {one["type"]: one["value"] for one in wanted}


def fetched(bucket: str, aws: Aws, folder: Path) -> Path:
    """The receipts that are in the bucket, in a folder of this machine."""
    client = boto3.client("s3", endpoint_url=aws.endpoint)
    prefix = f"files/{RECEIPTS}/"
    for entry in client.list_objects_v2(Bucket=bucket, Prefix=prefix).get("Contents", []):
        path = folder / entry["Key"].removeprefix(prefix)
        path.parent.mkdir(parents=True, exist_ok=True)
        client.download_file(bucket, entry["Key"], str(path))
    client.close()
    return folder


def test_a_job_runs_in_a_container_that_has_nothing(
    batch: Batch, repository: Repository, aws: Aws, bucket: str, tmp_path: Path
) -> None:
    config = repository.configure({"store": f"s3://{bucket}/store"})
    code, said = repository.run(f"{RECEIPTS}/fetch.json", *flags(bucket, config))
    assert code == 0, said
    ((job, submitted),) = batch.jobs.items()
    assert submitted["jobQueue"].endswith(":job-queue/foundry-cpu")
    assert asked(batch, job) == {"VCPU": "2", "MEMORY": "4096"}
    (definition,) = batch.definitions.values()
    assert definition["timeout"] == {"attemptDurationSeconds": 36_000}
    properties: dict[str, Any] = definition["containerProperties"]
    assert properties["jobRoleArn"].endswith(":role/foundry-job")
    assert properties["image"].partition(":")[0].endswith("/neff-foundry-queue")
    # Keys that this machine has are its own: a job has those of its role.
    assert "testing" not in str(definition)
    container = batch.host.containers[job]
    assert "fetch: done in" in container.said
    # The one thing that is installed in a container, from what the image holds.
    assert [line for line in container.said.splitlines() if line.startswith("pip ")] == [
        "pip install --target .snakemake/pip-deployments snakemake-storage-plugin-s3"
    ]
    assert made(fetched(bucket, aws, tmp_path / "fetched")).keys() == {"fetch.json"}
    assert not list(repository.folder.glob("results/**/*.json"))


def test_what_holds_neuroncores_goes_to_the_queue_of_the_second_run(
    batch: Batch, repository: Repository, bucket: str
) -> None:
    changes = {"name": "smoke", "store": f"s3://{bucket}/store"}
    config = repository.configure(changes, base="config/smoke-inf2.yaml")
    repository.pretend_in(bucket, config)
    target = f"{RECEIPTS}/nxd-tp2/parity.json"
    code, said = repository.run(target, "--aws-batch-job-queue", "with-neuroncores", *flags(bucket, config))
    # An empty receipt is no receipt: what counts is where the job ran.
    assert code == 1 and "Error in rule parity_inf2" in said, said
    ((job, submitted),) = batch.jobs.items()
    assert (submitted["jobQueue"], "parity_inf2" in submitted["jobName"]) == ("with-neuroncores", True)
    assert "assemble.json" in batch.host.containers[job].said
    # In a privileged container the devices of the host are there.
    (definition,) = batch.definitions.values()
    assert definition["containerProperties"]["privileged"] is True


@pytest.mark.soak  # four minutes
def test_the_whole_line_up_to_the_release(
    batch: Batch, repository: Repository, aws: Aws, bucket: str, tmp_path: Path
) -> None:
    """Every stage in a container of its own; release, table and page on the machine that was asked."""
    config = repository.configure({"store": f"s3://{bucket}/store"})
    code, said = repository.run("--local-cores", "1", *flags(bucket, config))
    assert code == 0, said
    assert len(batch.jobs) == 10
    results = repository.folder / "results" / "smoke"
    assert (results / "release" / "demo" / "release.json").exists()
    assert (results / "summary.json").exists() and (results / "report.html").exists()
    assert made(results / "receipts").keys() == {"demo/package.json"}
    there = made(fetched(bucket, aws, tmp_path / "fetched"))
    assert there.keys() == {
        *("fetch.json", "tables.json", "weights/cpu-float32-tp1.json", "prompts/128-32.json", "oracle/128-32.json"),
        *(f"128-32/{stage}.json" for stage in ("lower", "compile", "assemble", "parity", "bench")),
    }
    # On this machine alone, through a folder, the same is made.
    here = Repository.at(tmp_path / "here")
    code, said = here.run(f"{RECEIPTS}/128-32/assemble.json", "--configfile", here.configure({}))
    assert code == 0, said
    ours = made(here.folder / RECEIPTS)
    assert ours == {place: there[place] for place in ours}

    again, said = repository.run("--dry-run", *flags(bucket, config))
    assert again == 0 and "Nothing to be done" in said

    # What the Makefile does before and after: the bucket's receipts are judged, and are in the table.
    lost = there["128-32/compile.json"]
    for path in repository.folder.glob("results/store/objects/*/*"):
        if path.name in lost.values():
            path.unlink()
    Bucket(bucket, "store").discard(f"objects/{digest[:2]}/{digest}" for digest in lost.values())
    said = repository.call("recipes.recover", config, "--snakemake", *flags(bucket, config))
    # The release has the object too, and its receipt is on this machine.
    receipts = (f"{RECEIPTS}/package.json", f"s3://{bucket}/files/{RECEIPTS}/128-32/compile.json")
    removed = [f"removed {receipt}, which" for receipt in receipts]
    assert [line[: line.index(" this run makes again: its output")] for line in said.splitlines()] == removed
    table = repository.call("validate.summary", "--show", config, "--snakemake", *flags(bucket, config))
    assert table.splitlines()[1].split()[:2] == ["128-32", "passed"]
    assert repository.planned(*flags(bucket, config))["compile"] == 1

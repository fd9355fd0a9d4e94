"""The profile kubernetes against a stand-in of the API: bodies of jobs, and a job that shares only a bucket."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.profiles.containers import Host
from tests.profiles.kube import Kube, kubeconfig
from tests.profiles.repository import Repository
from tests.profiles.service import serving

RECEIPTS = "results/smoke/receipts/demo"


@pytest.fixture
def kube(containers: Host, repository: Repository, tmp_path: Path) -> Iterator[Kube]:
    service = Kube(containers)
    with serving(service) as address:
        repository.env["KUBECONFIG"] = str(kubeconfig(tmp_path, address))
        yield service


def flags(bucket: str, config: str) -> tuple[str, ...]:
    profile = ("--workflow-profile", "profiles/kubernetes", "--default-storage-prefix", f"s3://{bucket}/files")
    return (*profile, "--seconds-between-status-checks", "1", "--configfile", config)


def pod(kube: Kube) -> tuple[dict[str, Any], dict[str, Any]]:
    """The specification of the one job's pod, and of its container."""
    (job,) = kube.jobs.values()
    spec = job["spec"]["template"]["spec"]
    (container,) = spec["containers"]
    return spec, container


def test_what_holds_neuroncores_has_a_node_of_their_kind_to_itself(
    kube: Kube, repository: Repository, bucket: str
) -> None:
    changes = {"name": "smoke", "store": f"s3://{bucket}/store"}
    config = repository.configure(changes, base="config/smoke-inf2.yaml")
    repository.pretend_in(bucket, config)
    code, said = repository.run(f"{RECEIPTS}/nxd-tp2/parity.json", *flags(bucket, config))
    # An empty receipt is no receipt: what counts is where the job ran.
    assert code == 1 and "Error in rule parity_inf2" in said, said
    spec, container = pod(kube)
    assert spec["nodeSelector"] == {"node.kubernetes.io/instance-type": "inf2.8xlarge"}
    # 95 of 100 of its 32 cores: what a node has left for pods is a little less than all.
    assert container["resources"]["requests"]["cpu"] == "30400m"
    assert container["securityContext"] == {"privileged": True}
    (ran,) = kube.host.containers.values()
    assert "assemble.json" in ran.said


@pytest.mark.soak  # a minute
def test_a_job_runs_in_a_container_that_has_nothing(kube: Kube, repository: Repository, bucket: str) -> None:
    config = repository.configure({"store": f"s3://{bucket}/store"})
    code, said = repository.run(f"{RECEIPTS}/fetch.json", *flags(bucket, config))
    assert code == 0, said
    spec, container = pod(kube)
    assert spec["nodeSelector"] == {"node.kubernetes.io/instance-type": "r7i.4xlarge"}
    assert spec["serviceAccountName"] == "foundry"
    wanted = {"cpu": "1900m", "memory": "4096M", "ephemeral-storage": "100000M"}
    assert container["resources"] == {"requests": wanted}
    # Keys that this machine has are its own: a pod has those of its account.
    assert "testing" not in str(kube.jobs) and set(map(len, kube.secrets.values())) == {1}
    (ran,) = kube.host.containers.values()
    assert "fetch: done in" in ran.said
    assert not list(repository.folder.glob("results/**/*.json"))

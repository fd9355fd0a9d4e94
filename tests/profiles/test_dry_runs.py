"""What each profile would submit of the real matrix, with nothing built and nothing to reach but a bucket."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.profiles.repository import Repository

VARIANTS = "config/variants.yaml"
# As in tests/test_workflow.py: what a profile is must not change what is done.
PLANNED = {
    **{"fetch": 1, "fetch_here": 2, "tables": 3, "weights": 4, "prompts": 5, "oracle": 5, "package": 3},
    **dict.fromkeys(("lower", "lint", "compile", "assemble", "parity_inf2", "bench_inf2"), 13),
    **dict.fromkeys(("summary", "report", "all"), 1),
}


def test_slurm(repository: Repository) -> None:
    assert repository.planned("--workflow-profile", "profiles/slurm", "--configfile", VARIANTS) == PLANNED


@pytest.mark.parametrize("name", ["aws-batch", "kubernetes"])
def test_without_a_shared_file_system(repository: Repository, bucket: str, name: str) -> None:
    config = repository.configure({"store": f"s3://{bucket}/store"}, base=VARIANTS)
    prefix = ("--default-storage-prefix", f"s3://{bucket}/files")
    flags = ("--workflow-profile", f"profiles/{name}", *prefix, "--configfile", config)
    assert repository.planned(*flags) == PLANNED
    # The first of two runs, where a run has one queue: all but what holds a NeuronCore and what follows it.
    without = repository.planned("--omit-from", "parity_inf2", *flags)
    after = {"parity_inf2", "bench_inf2", "package", "summary", "report", "all"}
    assert without == {rule: count for rule, count in PLANNED.items() if rule not in after}


def test_what_publishes_is_found_on_this_machine(repository: Repository, bucket: str) -> None:
    made = [sys.executable, "-m", "publish.trust.keys", "--out", "keys"]
    subprocess.run(made, cwd=repository.folder, check=True, capture_output=True)
    publish = {
        **{"version": "v1", "registry": "registry.example/me", "hub": "me", "trusted": ["keys/publisher.pub"]},
        "signer": {"kind": "key", "key": "keys/publisher.key"},
    }
    config = repository.configure({"store": f"s3://{bucket}/store", "publish": publish})
    prefix = ("--default-storage-prefix", f"s3://{bucket}/files")
    planned = repository.planned(
        "promoted", "--workflow-profile", "profiles/aws-batch", *prefix, "--configfile", config
    )
    assert {"package", "image", "sign", "stage", "verify", "promote"} < planned.keys()
    assert set(planned.values()) == {1}

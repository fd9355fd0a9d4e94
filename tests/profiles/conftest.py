"""What every profile is tried with: a copy of the repository, and skips where something is not installed."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.aws import Aws
from tests.profiles.cluster import PROGRAMS, Cluster, cluster
from tests.profiles.containers import QUEUES, Host, host
from tests.profiles.repository import Repository


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    if not (QUEUES / "python").exists():
        pytest.skip("snakemake's plugins are not installed: make queues")
    return Repository.at(tmp_path / "repo")


@pytest.fixture(scope="module")
def slurm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A cluster for the tests of one file."""
    if lacking := [name for name in PROGRAMS if not shutil.which(name)]:
        pytest.skip(f"{', '.join(lacking)} not installed: make system")
    if os.geteuid() != 0:
        pytest.skip("slurm's configuration is root's")
    # Its sockets want a short path.
    with cluster(tmp_path_factory.mktemp("slurm")) as made:
        yield made


@pytest.fixture
def containers(aws: Aws, tmp_path: Path) -> Iterator[Host]:
    """Where the jobs of a queue run, with what their role gives them: access to AWS, which is moto's."""
    with host(tmp_path / "containers", aws.env) as made:
        yield made

"""The profile slurm on a real cluster of one node: jobs that slurm ran, with what a local run makes."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.profiles.cluster import Cluster, wait_until
from tests.profiles.repository import Repository, made

LOCAL = ("--workflow-profile", "profiles/default")
# Polls soon and lets slurm's own list of jobs tell: the cluster keeps no accounts.
SLURM = (
    *("--workflow-profile", "profiles/slurm"),
    *("--slurm-status-command", "squeue"),
    *("--slurm-init-seconds-before-status-checks", "1"),
    *("--slurm-no-account", "--slurm-keep-successful-logs"),
)
RECEIPTS = Path("results/smoke/receipts/demo")


def submitted(slurm: Cluster, folder: Path) -> dict[str, dict[str, str]]:
    """The jobs of a run in `folder` by rule, the last of each; slurm's comment names the rule."""
    jobs = (job for job in slurm.jobs() if job["WorkDir"] == str(folder))
    return {re.sub(r"^rule_|_wildcards_.*", "", job["Comment"]): job for job in jobs}


def flat(receipts: dict[str, dict[str, str]]) -> dict[str, str]:
    """Every file that receipts name, as RECEIPT:FILE."""
    return {f"{place}:{name}": sha256 for place, files in receipts.items() for name, sha256 in files.items()}


def test_a_job_runs_on_the_cluster(slurm: Cluster, repository: Repository) -> None:
    target = str(RECEIPTS / "fetch.json")
    code, said = repository.run(target, *SLURM, "--configfile", repository.configure({}))
    assert code == 0, said
    (name, job), *more = submitted(slurm, repository.folder).items()
    assert (name, more) == ("fetch", [])
    assert (job["JobState"], job["Partition"], job["TimeLimit"]) == ("COMPLETED", "cpu", "04:00:00")
    assert (job["NumCPUs"], job["MinMemoryNode"]) == ("2", "4G")
    (log,) = (repository.folder / ".snakemake" / "slurm_logs" / "rule_fetch").rglob("*.log")
    assert log.stem == job["JobId"] and "fetch: done in" in log.read_text()
    assert "model.safetensors.index.json" in made(repository.folder / RECEIPTS)["fetch.json"]


def test_only_parity_and_bench_of_inf2_ask_for_neuroncores(slurm: Cluster, repository: Repository) -> None:
    config = repository.configure({"name": "smoke"}, base="config/smoke-inf2.yaml")
    target = str(RECEIPTS / "nxd-tp2" / "parity.json")
    repository.pretend(config)
    code, said = repository.run(target, *SLURM, "--configfile", config)
    # An empty receipt is no receipt: what counts is where the job ran.
    assert code == 1 and "Error in rule parity_inf2" in said
    (name, job), *more = submitted(slurm, repository.folder).items()
    assert (name, more, job["Partition"], job["JobState"]) == ("parity_inf2", [], "inf2", "FAILED")
    assert "neuroncore:2" in job["TresPerNode"]
    (log,) = (repository.folder / ".snakemake" / "slurm_logs" / "rule_parity_inf2").rglob("*.log")
    assert "assemble.json" in log.read_text()


@pytest.mark.soak  # five minutes
def test_the_whole_line_makes_what_it_makes_here(slurm: Cluster, repository: Repository, tmp_path: Path) -> None:
    here = Repository.at(tmp_path / "here")
    code, said = here.run(*LOCAL, "--configfile", here.configure({}), "--cores", "2")
    assert code == 0, said

    code, said = repository.run(*SLURM, "--configfile", repository.configure({}))
    assert code == 0, said
    jobs = submitted(slurm, repository.folder)
    stages = ("fetch", "lower", "weights", "tables", "compile", "assemble", "prompts", "oracle", "parity", "bench")
    assert jobs.keys() == set(stages) and {job["JobState"] for job in jobs.values()} == {"COMPLETED"}
    assert {job["Partition"] for job in jobs.values()} == {"cpu"}
    # What was measured is another each time, and with it the receipts in a release and what lists them.
    measured = re.compile(r"package\.json:(README\.md|release\.json|sbom\.cdx\.json|.*/receipts/\w+\.json)")
    ours, theirs = (flat(made(repo.folder / RECEIPTS)) for repo in (repository, here))
    assert ours.keys() == theirs.keys() and len(ours) > 50
    assert not [name for name in ours if ours[name] != theirs[name] and not measured.fullmatch(name)]


@pytest.mark.soak  # two minutes
def test_a_job_that_is_cancelled_ends_in_one_failure_and_the_next_run_goes_on(
    slurm: Cluster, repository: Repository
) -> None:
    flags = (str(RECEIPTS / "128-32" / "lower.json"), *SLURM, "--configfile", repository.configure({}))
    logs = repository.folder / ".snakemake" / "slurm_logs" / "rule_fetch"
    with repository.start(*flags) as process:
        wait_until(lambda: any("fetch: building" in log.read_text() for log in logs.rglob("*.log")))
        (log,) = logs.rglob("*.log")
        slurm.cancel(log.stem)
        said, _ = process.communicate()
    assert process.returncode == 1
    assert said.count("Error in rule") == 1 and f"SLURM-job '{log.stem}' failed, SLURM status is: 'CANCELLED'" in said
    assert not (repository.folder / RECEIPTS).exists() or not made(repository.folder / RECEIPTS)

    code, said = repository.run(*flags)
    assert code == 0, said
    assert made(repository.folder / RECEIPTS).keys() == {"fetch.json", "128-32/lower.json"}

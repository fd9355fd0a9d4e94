"""What the workflow files promise: pins, permissions, ends, what happens when something failed, and no promotion."""

import re

import pytest

from config.loading import read_mapping
from ledger.sources import ROOT
from recipes.workflow import read_plan
from tests.workflows.reading import FILES, commands, read, steps

NIGHTLY = [ROOT / "config" / "variants.yaml", ROOT / "config" / "nightly.yaml"]


JOBS = {f"{name}/{job}": facts for name, path in FILES.items() for job, facts in read(path)["jobs"].items()}


@pytest.mark.parametrize("name", FILES)
def test_every_action_is_pinned_by_its_commit_and_says_which_release_that_is(name: str) -> None:
    used = re.findall(r"uses: (.+)", FILES[name].read_text())
    assert used
    for one in used:
        assert re.fullmatch(r"[\w-]+/[\w-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+", one), one


def test_one_release_of_an_action_everywhere() -> None:
    used = {step.action for name in FILES for step in steps(name) if step.action}
    assert len(used) == len({one.partition("@")[0] for one in used})


@pytest.mark.parametrize("name", FILES)
def test_permissions_are_the_least(name: str) -> None:
    workflow = read(FILES[name])
    granted = [workflow["permissions"], *(job.get("permissions", {}) for job in workflow["jobs"].values())]
    for one in granted:
        assert one.items() <= {"contents": "read", "id-token": "write"}.items()
    assert name == "nightly" or not any("id-token" in one for one in granted)
    assert "pull_request_target" not in workflow["on"]


@pytest.mark.parametrize("name", JOBS)
def test_every_job_ends_and_keeps_no_token_of_the_repository(name: str) -> None:
    job = JOBS[name]
    assert 0 < job["timeout-minutes"] <= 720
    (checkout,) = [step for step in job["steps"] if step.get("uses", "").startswith("actions/checkout@")]
    assert checkout["with"]["persist-credentials"] is False


def test_a_night_is_never_cancelled_by_the_next_and_its_last_steps_have_their_time() -> None:
    workflow = read(FILES["nightly"])
    assert workflow["concurrency"] == {"group": "nightly", "cancel-in-progress": False}
    assert set(workflow["on"]) == {"schedule", "workflow_dispatch"}
    (build,) = [step for step in steps("nightly") if " snakemake " in step.run]
    job = workflow["jobs"]["matrix"]
    assert build.facts["timeout-minutes"] <= job["timeout-minutes"] - 30
    (aws,) = [step for step in steps("nightly", "matrix") if "aws-credentials" in step.action]
    assert aws.facts["with"]["role-duration-seconds"] > job["timeout-minutes"] * 60


def test_only_a_site_that_names_a_runner_has_a_night() -> None:
    job = read(FILES["nightly"])["jobs"]["matrix"]
    assert job["if"] == "vars.NIGHTLY_RUNNER != ''"
    assert "vars.NIGHTLY_RUNNER" in job["runs-on"]
    assert FILES["nightly"].read_text().count("vars.NIGHTLY_RUNNER }}") <= 1


def test_report_and_receipts_are_kept_also_when_something_failed() -> None:
    after = [step for step in steps("nightly", "matrix") if step.always]
    report, upload = after
    assert "-m validate.report " in report.run
    kept = upload.facts["with"]["path"].split()
    words = report.run.split()
    for flag in ("--out", "--upstream"):
        assert words[words.index(flag) + 1] in kept
    assert words[-1] in kept


def test_machines_are_ended_whatever_happened_and_from_another_machine() -> None:
    job = read(FILES["nightly"])["jobs"]["afterwards"]
    assert (job["needs"], job["if"]) == ("matrix", "always() && needs.matrix.result != 'skipped'")
    assert "vars." not in job["runs-on"]
    assert [step.run for step in steps("nightly", "afterwards") if " sweep " in step.run and "--terminate" in step.run]
    (collect,) = [step for step in steps("nightly", "afterwards") if " collect " in step.run]
    assert collect.always
    assert "--delete" not in collect.run


def test_a_night_stages_and_promotes_nothing() -> None:
    said = " ".join(step.run for step in commands())
    assert "snakemake staged " in said
    assert "promot" not in said


def test_the_night_has_the_real_matrix_and_a_site_of_its_own() -> None:
    plan, alone = read_plan(NIGHTLY, {}), read_plan(NIGHTLY[:1], {})
    assert plan.factory.name == "nightly"
    assert plan.factory.store.startswith("s3://")
    assert plan.factory.inf2 is not None
    assert plan.factory.publish is not None
    assert plan.factory.checkpoints == alone.factory.checkpoints
    assert set(read_mapping(NIGHTLY[1])) == {"name", "store", "inf2", "publish"}


def test_the_address_of_the_store_is_the_same_in_both_places() -> None:
    factory = read_plan(NIGHTLY, {}).factory
    named = re.findall(r"--store (\S+)", " ".join(step.run for step in steps("nightly")))
    assert named == [factory.store] * 2
    assert re.findall(r"--cache (\S+)", " ".join(step.run for step in steps("nightly"))) == [factory.cache]


def test_a_signature_is_that_of_this_very_workflow() -> None:
    publish = read_plan(NIGHTLY, {}).factory.publish
    assert publish is not None
    assert publish.signer.kind == "keyless"
    path = FILES["nightly"].relative_to(ROOT).as_posix()
    assert publish.signer.subject.endswith(f"/{path}@refs/heads/main")
    assert [(one.issuer, one.subject) for one in publish.identities] == [
        (publish.signer.issuer, publish.signer.subject)
    ]
    assert read(FILES["nightly"])["jobs"]["matrix"]["permissions"]["id-token"] == "write"


def test_ci_demands_what_the_script_of_the_project_demands() -> None:
    """The demo is the smoke line at its full size; all else has the same name in both."""
    script = re.findall(r"^make (\S+)$", (ROOT / ".ci" / "run").read_text(), re.M)
    ours = [step.run.removeprefix("make ") for step in steps("ci")]
    assert {name for name in ours if name} == {"demo" if name == "smoke" else name for name in script}

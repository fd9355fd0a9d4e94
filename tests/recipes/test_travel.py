"""Where receipts are, by the flags that snakemake gets."""

from __future__ import annotations

from pathlib import Path

import pytest

from ledger.errors import BadInput
from ledger.sources import ROOT
from recipes.travel import bucket_in

STORE = "s3://bucket/store"


@pytest.mark.parametrize(
    "flags",
    [
        [],
        ["measured", "--cores", "2", "--set-threads", "bench=1"],
        ["--workflow-profile", "none"],
        ["--workflow-profile", str(ROOT / "profiles" / "slurm")],
        ["--default-storage-prefix", "s3://nobody/asks"],
    ],
)
def test_without_storage_in_s3_they_are_here(flags: list[str]) -> None:
    assert bucket_in(flags, STORE) is None


def test_a_profile_or_flags_name_the_bucket(bucket: str, tmp_path: Path) -> None:
    profile = tmp_path / "mine"
    profile.mkdir()
    said = f"default-storage-provider: s3\ndefault-storage-prefix: s3://{bucket}/of-profile\n"
    (profile / "config.yaml").write_text(said)
    of_profile = ["--workflow-profile", str(profile)]
    for flags, prefix in (
        (["built", *of_profile, "--cores", "1"], "of-profile"),
        ([*of_profile, f"--default-storage-prefix=s3://{bucket}/of-flag"], "of-flag"),
        (["--default-storage-provider", "s3", "--default-storage-prefix", f"s3://{bucket}/of-flag"], "of-flag"),
    ):
        found = bucket_in(flags, STORE)
        assert found and found.location == f"s3://{bucket}/{prefix}"


def test_a_profile_is_found_and_read_as_snakemake_does(
    bucket: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert bucket_in([], STORE) is None
    for name in ("default", "mine"):
        folder = tmp_path / "profiles" / name
        folder.mkdir(parents=True)
        said = f"default-storage-provider: s3\ndefault-storage-prefix: s3://$SITE/{name}\n"
        (folder / "config.yaml").write_text(said)
    monkeypatch.setenv("SITE", bucket)
    for flags, name in (([], "default"), (["--workflow-profile", "mine"], "mine")):
        found = bucket_in(flags, STORE)
        assert found and found.location == f"s3://{bucket}/{name}"
    assert bucket_in(["--workflow-profile", "none"], STORE) is None


@pytest.mark.usefixtures("aws")
def test_what_is_no_profile_or_no_bucket_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text("- a list\n")
    for flags, said in (
        (
            ["--workflow-profile", str(tmp_path / "none")],
            r"none/config\.yaml cannot be read: .*; accepted: a folder with",
        ),
        (["--workflow-profile", str(tmp_path)], r"config\.yaml holds no mapping; accepted: a folder with a profile"),
        (["--workflow-profile"], "--workflow-profile: expected one argument"),
        (["--default-storage-provider", "s3"], "--default-storage-prefix: found None; accepted: s3://BUCKET/PREFIX"),
        (
            ["--default-storage-provider", "s3", "--default-storage-prefix", "mine/x"],
            "found 'mine/x'; accepted: s3://B",
        ),
        (["--cores", "1", "--config", "name=mine"], "--config: is not looked at here; accepted: one more file"),
        (["-C", "name=mine"], "--config: is not looked at here; accepted: one more file of configuration"),
        (["--configfile", "config/kinds.yaml"], "--configfile: is not looked at here; accepted: one more file"),
        (["-d", "elsewhere"], "--directory: is not looked at here; accepted: the command in that folder"),
        (["built", "-c0"], "--cores: found '0'; accepted: a whole number, 1 or more, or all"),
        (["--workflow-profile", str(ROOT / "profiles" / "aws-batch")], "there is no bucket my-bucket; accepted"),
    ):
        with pytest.raises(BadInput, match=said):
            bucket_in(flags, STORE)


def test_a_store_that_no_job_sees_is_told_of_before_any_bucket() -> None:
    with pytest.raises(
        BadInput, match=r"store is 'results/store'; accepted where jobs share no file system .*s3://BUCK"
    ):
        bucket_in(["--workflow-profile", str(ROOT / "profiles" / "aws-batch")], "results/store")

"""Provenance reads back through the in-toto project's own types, and says what a stage knew and no more."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from google.protobuf import json_format  # type: ignore[import-untyped]
from in_toto_attestation.predicates.provenance.v1 import provenance_pb2  # type: ignore[import-untyped]
from in_toto_attestation.v1.statement import Statement  # type: ignore[import-untyped]

from ledger.digest import sha256_file
from publish.trust.provenance import image_provenance
from publish.trust.source import Source, read_source
from tests.publish.signed import VARIANT, Publisher

EMPTY_COMMIT = ("-c", "user.name=x", "-c", "user.email=x@example.com", "commit", "--allow-empty", "-qm", "x")


@pytest.fixture
def statement(published: Publisher) -> Any:
    return json.loads((published.signed / "provenance.json").read_bytes())


def test_both_are_statements_and_provenance_by_the_specifications_own_schema(published: Publisher) -> None:
    for folder in (published.signed, published.attestation):
        value = json.loads((folder / "provenance.json").read_bytes())
        # Unknown fields are refused by the parser, missing ones by validate().
        parsed = Statement([], "", {})
        json_format.ParseDict(value, parsed.pb)
        parsed.validate()
        json_format.ParseDict(value["predicate"], provenance_pb2.Provenance())
        assert value["predicateType"] == "https://slsa.dev/provenance/v1"


def test_the_subject_is_every_file_but_itself_and_the_signature(published: Publisher, statement: Any) -> None:
    folder = published.signed
    names = {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}
    names -= {"provenance.json", "model.sig"}
    said = {one["name"]: one["digest"]["sha256"] for one in statement["subject"]}
    assert said == {name: sha256_file(folder / name) for name in names}


def test_what_it_was_made_from(published: Publisher, statement: Any) -> None:
    build = statement["predicate"]["buildDefinition"]
    dependencies = {one["name"]: one for one in build["resolvedDependencies"]}
    for name, ref in published.line.inputs["fetch"].outputs.items():
        assert dependencies[f"checkpoint/{name}"]["digest"] == {"sha256": ref.sha256}
    assert dependencies["python"]["uri"] == "pkg:generic/python@3.11"
    assert dependencies["source"]["digest"] == {"gitCommit": published.source.commit}
    assert dependencies["source"]["annotations"] == {"dirty": False}
    assert build["externalParameters"]["release"]["variants"] == [VARIANT, "bf16"]


def test_the_path_of_a_checkpoint_stays_private(statement: Any) -> None:
    assert statement["predicate"]["buildDefinition"]["externalParameters"]["release"]["source"] == {"kind": "path"}


def test_receipts_are_named_by_what_followers_key_on(published: Publisher, statement: Any) -> None:
    said = {one["name"]: one["digest"]["receipt"] for one in statement["predicate"]["runDetails"]["byproducts"]}
    inputs = published.line.inputs
    assert said["bf16/parity"] == inputs["bf16/parity"].digest
    assert said["package"] == published.receipt("package").digest
    assert len(said) == 2 + 2 * 5


def test_an_image_speaks_of_its_manifest_and_of_its_own_variant(published: Publisher, statement: Any) -> None:
    value = json.loads((published.attestation / "provenance.json").read_bytes())
    image = published.line.inputs[f"{VARIANT}/image"].facts["digest"]
    assert [one["digest"]["sha256"] for one in value["subject"]] == [image.removeprefix("sha256:")]
    assert list(value["predicate"]["buildDefinition"]["externalParameters"]["variants"]) == [VARIANT]
    named = [one["name"] for one in value["predicate"]["runDetails"]["byproducts"]]
    assert not [name for name in named if name.startswith("bf16/")]
    same = image_provenance((published.signed / "provenance.json").read_bytes(), VARIANT, image[7:])
    assert json.loads(same) == value


def test_no_clock_is_read(published: Publisher) -> None:
    text = (published.signed / "provenance.json").read_text()
    assert "startedOn" not in text
    assert "finishedOn" not in text


def git(root: Path, *arguments: str) -> str:
    done = subprocess.run(["git", "-C", root, *arguments], check=True, capture_output=True, text=True)
    return done.stdout.strip()


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    root = tmp_path / "repository"
    root.mkdir()
    git(root, "init", "-q")
    (root / "kept").write_text("one")
    git(root, "add", "kept")
    git(root, *EMPTY_COMMIT)
    return root


def test_a_clean_tree_is_its_commit(repository: Path) -> None:
    assert read_source(repository) == Source(git(repository, "rev-parse", "HEAD"), dirty=False)


@pytest.mark.parametrize("name", ["kept", "new"])
def test_an_edit_and_a_file_that_git_does_not_know_make_it_dirty(repository: Path, name: str) -> None:
    (repository / name).write_text("two")
    assert read_source(repository) == Source(git(repository, "rev-parse", "HEAD"), dirty=True)


def test_no_repository_and_somebody_elses_are_unknown(repository: Path, tmp_path: Path) -> None:
    inside = repository / "unpacked"
    inside.mkdir()
    for root in (tmp_path, inside, tmp_path / "none"):
        assert read_source(root) == Source("unknown", None)


def test_a_machine_without_git_is_unknown(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    assert read_source(repository) == Source("unknown", None)

"""Stage sign: what it adds to what package laid out, when it signs again, and what it refuses."""

import json
import shutil
from pathlib import Path

import pytest

from ledger.digest import sha256_file
from ledger.errors import BadInput
from publish.trust.keys import make_keys
from publish.trust.source import Source
from publish.trust.verdicts import verify_folder
from tests.publish.signed import VARIANT, Publisher, publisher


def files(folder: Path) -> dict[str, str]:
    return {path.relative_to(folder).as_posix(): sha256_file(path) for path in folder.rglob("*") if path.is_file()}


@pytest.fixture
def mine(published: Publisher, tmp_path: Path) -> Publisher:
    """A publisher of one's own, in a copy of everything but the signed folders: the stage may run again."""
    for name in ("store", "release", "images", "keys", "signed", "attestations"):
        shutil.copytree(published.root / name, tmp_path / name)
    one = Publisher(tmp_path, type(published.line)(type(published.line.store)(tmp_path / "store")))
    one.line.inputs = dict(published.line.inputs)
    return one


def forget(mine: Publisher) -> None:
    """Take from the store what it knows of earlier runs."""
    shutil.rmtree(mine.root / "store" / "actions")
    (mine.root / "store" / "actions").mkdir()


def test_it_adds_three_files_and_changes_none(published: Publisher) -> None:
    before, after = files(published.release), files(published.signed)
    assert before.items() <= after.items()
    assert after.keys() - before.keys() == {"images.json", "provenance.json", "model.sig"}


def test_the_signed_release_names_its_images(published: Publisher) -> None:
    facts = published.line.inputs[f"{VARIANT}/image"].facts
    assert json.loads((published.signed / "images.json").read_bytes()) == {VARIANT: facts}


def test_the_receipt_lists_every_file_of_both_folders(published: Publisher) -> None:
    receipt = published.receipt("sign")
    listed = {name: ref.sha256 for name, ref in receipt.outputs.items()}
    there = {f"release/{name}": digest for name, digest in files(published.signed).items()}
    there |= {f"images/{VARIANT}/{name}": digest for name, digest in files(published.attestation).items()}
    assert listed == there
    assert receipt.facts["images"] == {VARIANT: published.line.inputs[f"{VARIANT}/image"].facts["digest"]}
    assert str(published.key) not in receipt.model_dump_json()


def test_unchanged_content_is_not_signed_again(mine: Publisher, published: Publisher) -> None:
    shutil.rmtree(mine.signed)
    shutil.rmtree(mine.attestation)
    mine.sign()
    assert files(mine.signed) == files(published.signed)
    assert files(mine.attestation) == files(published.attestation)


@pytest.mark.parametrize("source", [Source("2" * 40, dirty=False), Source("2" * 40, dirty=True)])
def test_another_commit_does_not_sign_again(mine: Publisher, published: Publisher, source: Source) -> None:
    """The record is gone, as after an edit to what signs; what lies in the folders is still good."""
    forget(mine)
    mine.source = source
    mine.sign()
    assert files(mine.signed) == files(published.signed)
    assert files(mine.attestation) == files(published.attestation)


def test_a_tree_that_is_clean_at_last_signs_again(mine: Publisher) -> None:
    forget(mine)
    shutil.rmtree(mine.signed)
    said = []
    for dirty in (True, False):
        mine.source = Source("1" * 40, dirty=dirty)
        mine.sign()
        statement = json.loads((mine.signed / "provenance.json").read_bytes())
        dependencies = statement["predicate"]["buildDefinition"]["resolvedDependencies"]
        said.append(next(one["annotations"]["dirty"] for one in dependencies if one["name"] == "source"))
        assert verify_folder(mine.signed, mine.trusted).ok
    assert said == [True, False]


def test_another_key_signs_again(mine: Publisher, published: Publisher) -> None:
    shutil.rmtree(mine.root / "keys")
    make_keys(mine.root / "keys")
    mine.sign()
    assert verify_folder(mine.signed, mine.trusted).ok
    assert verify_folder(mine.signed, published.trusted).kind == "unknown_signer"


def test_a_damaged_folder_comes_back_as_it_was_signed(mine: Publisher, published: Publisher) -> None:
    (mine.signed / "README.md").unlink()
    (mine.attestation / "model.sig").unlink()
    mine.sign()
    assert files(mine.signed) == files(published.signed)
    assert files(mine.attestation) == files(published.attestation)


def test_an_image_other_than_its_receipt_says(mine: Publisher) -> None:
    facts = mine.line.inputs[f"{VARIANT}/image"].facts | {"digest": "sha256:" + "5" * 64}
    mine.line.record(f"{VARIANT}/image", facts=facts)
    with pytest.raises(BadInput, match="accepted: sha256:5555"):
        mine.sign()


def test_without_images_only_the_release_is_signed(tmp_path: Path) -> None:
    one = publisher(tmp_path)
    one.package("bf16", VARIANT)
    one.sign()
    assert verify_folder(one.signed, one.trusted).ok
    assert not (one.signed / "images.json").exists()
    assert not one.attestation.parent.exists()


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["--key", "none.key"], "none.key cannot be read"),
        (["--signer", '{"kind": "key"}'], "--signer: .*key is missing"),
        (["--signer", '{"kind": "seal"}'], "--signer: .*'seal'"),
        (["--signer", "key"], "--signer is not readable as JSON"),
    ],
)
def test_a_signer_that_is_none(mine: Publisher, flags: list[str], said: str) -> None:
    with pytest.raises(BadInput, match=said):
        mine.sign(*flags)


def test_a_release_is_never_signed_with_a_damaged_object(mine: Publisher) -> None:
    forget(mine)
    ref = mine.line.inputs["package"].outputs["tables/tables.safetensors"]
    stored = mine.line.store.path(ref)
    stored.chmod(0o644)
    stored.write_bytes(b"TABLES")
    shutil.rmtree(mine.signed)
    with pytest.raises(BadInput, match="sha256"):
        mine.sign()
    assert not mine.signed.exists()

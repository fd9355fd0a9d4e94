"""The signed folder of an image: complete, passed, and of that image."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ledger.digest import sha256_file
from ledger.errors import BadInput
from publish.trust.attestation import verify_attestation
from publish.trust.trusted import Trusted
from tests.publish.damage import edit, sign_again, sign_as_it_is
from tests.publish.signed import VARIANT, Publisher


def test_its_digest_is_the_images(published: Publisher, trusted: Trusted) -> None:
    verdict = verify_attestation(published.attestation, trusted)
    assert verdict.ok
    assert verdict.digest == published.line.inputs[f"{VARIANT}/image"].facts["digest"]


def test_it_holds_the_images_own_bytes_and_what_the_release_says(published: Publisher) -> None:
    blobs, folder = published.layout / "blobs" / "sha256", published.attestation
    assert (blobs / sha256_file(folder / "image.json")).is_file()
    assert (blobs / sha256_file(folder / "config.json")).is_file()
    for name in ("LICENSE", "NOTICE"):
        assert (folder / name).read_bytes() == (published.release / name).read_bytes()
    for path in (published.release / f"variants/{VARIANT}/receipts").iterdir():
        assert (folder / "receipts" / path.name).read_bytes() == path.read_bytes()
    licences = {path.name: path.read_bytes() for path in (published.release / "licences").iterdir()}
    assert {path.name: path.read_bytes() for path in (folder / "licences").iterdir()} == licences


def test_no_attestation(tmp_path: Path, trusted: Trusted, published: Publisher) -> None:
    with pytest.raises(BadInput, match="accepted: the attestation of an image"):
        verify_attestation(tmp_path / "none", trusted)
    assert verify_attestation(tmp_path, trusted).kind == "not_a_release"
    assert verify_attestation(published.signed, trusted).kind == "file_missing"


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        *(("image.json", "file_missing"), ("config.json", "file_missing"), ("manifest.json", "file_missing")),
        *(("sbom.cdx.json", "file_missing"), ("provenance.json", "file_missing"), ("NOTICE", "file_missing")),
        *(("receipts/parity.json", "receipt_missing"), ("receipts/bench.json", "receipt_missing")),
    ],
)
def test_one_that_was_signed_without(
    attestation: Path, trusted: Trusted, published: Publisher, name: str, kind: str
) -> None:
    (attestation / name).unlink()
    sign_again(attestation, published.key)
    verdict = verify_attestation(attestation, trusted)
    assert (verdict.kind, name in verdict.sentence) == (kind, True)


def test_one_without_a_signature(attestation: Path, trusted: Trusted) -> None:
    (attestation / "model.sig").unlink()
    assert verify_attestation(attestation, trusted).kind == "unsigned"


def _labels(labels: dict[str, str]) -> Callable[[Any], None]:
    return lambda config: config["config"]["Labels"].update(labels)


CONFIGS: dict[str, tuple[Callable[[Any], None], str]] = {
    "another artifact": (_labels({"neff-foundry.artifact": "sha256:" + "5" * 64}), "parity_not_passed"),
    "another variant": (_labels({"neff-foundry.variant": "bf16"}), "parity_not_passed"),
    "no labels": (lambda config: config["config"].pop("Labels"), "parity_not_passed"),
    "another platform": (lambda config: config.update(architecture="arm64"), "incompatible_runtime"),
}


@pytest.mark.parametrize(("change", "kind"), CONFIGS.values(), ids=CONFIGS.keys())
def test_an_image_with_other_labels(
    attestation: Path, trusted: Trusted, published: Publisher, change: Callable[[Any], None], kind: str
) -> None:
    """The image was built so, and its publisher signs it."""
    edit(attestation / "config.json", change)
    digest = f"sha256:{sha256_file(attestation / 'config.json')}"
    edit(attestation / "image.json", lambda image: image["config"].update(digest=digest))
    sign_again(attestation, published.key)
    assert verify_attestation(attestation, trusted).kind == kind


def test_a_configuration_of_another_image(attestation: Path, trusted: Trusted, published: Publisher) -> None:
    edit(attestation / "config.json", lambda config: config.update(created="today"))
    sign_again(attestation, published.key)
    assert verify_attestation(attestation, trusted).kind == "file_changed"


def test_provenance_of_another_image(attestation: Path, trusted: Trusted, published: Publisher) -> None:
    statement = json.loads((attestation / "provenance.json").read_bytes())
    statement["subject"][0]["digest"]["sha256"] = "5" * 64
    (attestation / "provenance.json").unlink()
    (attestation / "provenance.json").write_text(json.dumps(statement))
    sign_as_it_is(attestation, published.key)
    assert verify_attestation(attestation, trusted).kind == "provenance_mismatch"


def test_a_parity_that_failed(attestation: Path, trusted: Trusted, published: Publisher) -> None:
    edit(attestation / "receipts/parity.json", lambda receipt: receipt.update(verdict="failed"))
    sign_again(attestation, published.key)
    assert verify_attestation(attestation, trusted).kind == "parity_not_passed"

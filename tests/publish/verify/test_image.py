"""The judge of an image in an OCI layout: each verdict from one cause."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ledger.digest import sha256_file
from ledger.errors import BadInput
from publish.image.layout import read_layout
from publish.trust.keys import PUBLIC, make_keys
from publish.trust.trusted import Trusted, load_trusted
from publish.verify.image import verify_image
from publish.verify.reference import judge
from tests.publish.damage import edit, sign_as_it_is
from tests.publish.signed import VARIANT, Publisher
from tests.publish.verify.conftest import together


def blob(layout: Path, digest: str) -> Path:
    return layout / "blobs" / "sha256" / digest.removeprefix("sha256:")


def test_an_image_with_its_attestation(both: Path, trusted: Trusted, published: Publisher) -> None:
    verdict = judge(f"oci:{both}", trusted)
    assert verdict.ok
    assert verdict.digest == published.line.inputs[f"{VARIANT}/image"].facts["digest"]
    assert verify_image(published.layout, published.attestation, trusted) == verdict


def test_an_image_without(published: Publisher, trusted: Trusted) -> None:
    assert judge(f"oci:{published.layout}", trusted).kind == "unsigned"


def test_an_attestation_without_a_signature(published: Publisher, trusted: Trusted, tmp_path: Path) -> None:
    layout = Path(shutil.copytree(published.layout, tmp_path / "layout"))
    folder = Path(shutil.copytree(published.attestation, tmp_path / "attestation"))
    (folder / "model.sig").unlink()
    assert judge(f"oci:{together(layout, folder, tmp_path / 'packed')}", trusted).kind == "unsigned"


def test_a_key_that_nobody_trusts(both: Path, tmp_path: Path) -> None:
    make_keys(tmp_path / "other")
    stranger = load_trusted([tmp_path / "other" / PUBLIC], environ={})
    assert judge(f"oci:{both}", stranger).kind == "unknown_signer"


@pytest.mark.parametrize("part", ["manifest", "config", "layer"])
def test_a_blob_that_changed_and_one_that_is_missing(
    both: Path, trusted: Trusted, published: Publisher, part: str
) -> None:
    image = read_layout(published.layout)
    digests = {
        "manifest": image.digest,
        "config": image.manifest["config"]["digest"],
        "layer": image.layers[0]["digest"],
    }
    path = blob(both, digests[part])
    data = path.read_bytes()
    path.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    verdict = judge(f"oci:{both}", trusted)
    assert (verdict.kind, path.name in verdict.sentence) == ("file_changed", True)
    path.unlink()
    verdict = judge(f"oci:{both}", trusted)
    assert (verdict.kind, path.name in verdict.sentence) == ("file_missing", True)


def test_an_attestation_of_another_image(published: Publisher, trusted: Trusted, tmp_path: Path) -> None:
    """Somebody gives the good name of one image to another one."""
    layout = Path(shutil.copytree(published.layout, tmp_path / "layout"))
    manifest = read_layout(layout).manifest | {"annotations": {"from": "somebody else"}}
    data = json.dumps(manifest).encode()
    aside = tmp_path / "manifest"
    aside.write_bytes(data)
    digest = f"sha256:{sha256_file(aside)}"
    shutil.move(aside, blob(layout, digest))
    edit(layout / "index.json", lambda index: index["manifests"][0].update(digest=digest, size=len(data)))
    assert verify_image(layout, published.attestation, trusted).kind == "bad_signature"
    assert judge(f"oci:{together(layout, published.attestation, tmp_path / 'packed')}", trusted).kind == "bad_signature"


def test_one_of_two_images_is_named_by_its_tag(both: Path, trusted: Trusted, published: Publisher) -> None:
    def second(index: Any) -> None:
        first = index["manifests"][0]
        first["annotations"] = {"org.opencontainers.image.ref.name": "v1"}
        index["manifests"].append(first | {"digest": "sha256:" + "5" * 64, "annotations": {}})

    edit(both / "index.json", second)
    assert judge(f"oci:{both}", trusted).kind == "not_a_release"
    assert judge(f"oci:{both}:v1", trusted).ok
    assert judge(f"oci:{both}:v2", trusted).kind == "not_a_release"


INDEXES: dict[str, Callable[[Path], object]] = {
    "none": Path.unlink,
    "no JSON": lambda path: path.write_text("index"),
    "a list": lambda path: path.write_text("[]"),
    "no manifests": lambda path: path.write_text("{}"),
    "no digest": lambda path: path.write_text('{"manifests": [{}]}'),
    "numbers": lambda path: path.write_text('{"manifests": [7]}'),
    "a path": lambda path: path.write_text('{"manifests": [{"digest": "../../etc/passwd"}]}'),
}


@pytest.mark.parametrize("change", INDEXES.values(), ids=INDEXES.keys())
def test_a_folder_that_is_no_layout(both: Path, trusted: Trusted, change: Callable[[Path], object]) -> None:
    change(both / "index.json")
    assert judge(f"oci:{both}", trusted).kind in ("not_a_release", "unsigned")


def test_an_attestation_that_would_write_elsewhere(
    published: Publisher, trusted: Trusted, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    layout = Path(shutil.copytree(published.layout, tmp_path / "layout"))
    folder = Path(shutil.copytree(published.attestation, tmp_path / "attestation"))
    monkeypatch.setattr("publish.image.attest.File", _escaping(published))
    together(layout, folder, tmp_path / "packed")
    verdict = judge(f"oci:{layout}", trusted)
    assert verdict.kind == "extra_file"
    assert "outside" in verdict.sentence


def _escaping(published: Publisher) -> Callable[..., Any]:
    from publish.image.layer import File

    def escaping(path: str, *rest: Any) -> File:
        return File("../outside" if path == "NOTICE" else path, *rest)

    return escaping


def test_a_parity_that_failed(published: Publisher, trusted: Trusted, tmp_path: Path) -> None:
    layout = Path(shutil.copytree(published.layout, tmp_path / "layout"))
    folder = Path(shutil.copytree(published.attestation, tmp_path / "attestation"))
    edit(folder / "receipts/parity.json", lambda receipt: receipt.update(verdict="done"))
    sign_as_it_is(folder, published.key)
    assert judge(f"oci:{together(layout, folder, tmp_path / 'packed')}", trusted).kind == "parity_not_passed"


def test_no_folder(trusted: Trusted, tmp_path: Path) -> None:
    for reference in (f"oci:{tmp_path}/none", "oci:", f"oci:{tmp_path}/none:v1"):
        with pytest.raises(BadInput, match="names no folder; accepted: oci:DIR"):
            judge(reference, trusted)

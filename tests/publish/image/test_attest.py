"""Attestations: a folder goes to the registry beside its image, and comes back as it was."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path

import pytest

from ledger.digest import sha256_bytes
from ledger.errors import BadInput
from publish.image.attest import attestation_of, attested, fetch_attestation, pack, push_attestation
from publish.image.blobs import Blobs
from publish.image.layer import MEDIA_TYPE, normal
from publish.image.layer import pack as pack_layer
from publish.image.layout import write_layout
from publish.image.registry import push
from tests.publish.image.small import write

MANIFEST = b'{"schemaVersion": 2}'
DIGEST = f"sha256:{sha256_bytes(MANIFEST)}"


def _folder(root: Path) -> Path:
    contents = {"image.json": MANIFEST, "receipts/parity.json": b"{}\n", "LICENSE": b"licence\n", "model.sig": b"{}"}
    for path, data in contents.items():
        write(root / path, data)
    return root


def _read(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_it_comes_back_as_it_was(tmp_path: Path, repository: str) -> None:
    folder = _folder(tmp_path / "folder")
    assert attested(f"{repository}:any", DIGEST) is None
    sent = push_attestation(folder, f"{repository}:any")
    assert attested(f"{repository}:any", DIGEST) == sent.digest
    write(tmp_path / "back" / "stray", b"")
    assert fetch_attestation(attestation_of(repository, DIGEST), tmp_path / "back") == sent.digest
    assert fetch_attestation(f"{repository}@{sent.digest}", tmp_path / "again") == sent.digest
    assert _read(tmp_path / "back") == _read(tmp_path / "again") == _read(folder)


def test_it_is_sent_once_and_is_the_same_wherever_it_is_packed(tmp_path: Path, repository: str) -> None:
    one, two = _folder(tmp_path / "one"), _folder(tmp_path / "deep" / "two")
    sent = push_attestation(one, repository)
    again = push_attestation(two, repository)
    assert again.digest == sent.digest and again.blobs_sent == 0


def test_its_tag_and_its_subject_name_the_image(tmp_path: Path, repository: str) -> None:
    assert attestation_of(f"{repository}:x", DIGEST) == f"{repository}:sha256-{DIGEST[7:]}.att"
    subject = pack(_folder(tmp_path / "folder"), tmp_path / "layout").manifest["subject"]
    assert (subject["digest"], subject["size"]) == (DIGEST, len(MANIFEST))


def test_a_folder_without_the_image_is_refused(tmp_path: Path, repository: str) -> None:
    write(tmp_path / "LICENSE", b"licence\n")
    with pytest.raises(BadInput, match=r"image\.json cannot be read: No such file or directory; accepted: an image's"):
        push_attestation(tmp_path, repository)


def test_a_link_is_refused(tmp_path: Path, repository: str) -> None:
    folder = _folder(tmp_path / "folder")
    (folder / "secret").symlink_to("/etc/hostname")
    with pytest.raises(BadInput, match=r"secret is no regular file; accepted in an attestation: only those$"):
        push_attestation(folder, repository)


@pytest.mark.parametrize(
    ("path", "kind", "link"),
    [
        ("../outside", tarfile.REGTYPE, ""),
        ("/outside", tarfile.REGTYPE, ""),
        ("a/../../outside", tarfile.REGTYPE, ""),
        ("link", tarfile.SYMTYPE, "/etc/hostname"),
        ("link", tarfile.LNKTYPE, "image.json"),
        ("device", tarfile.CHRTYPE, ""),
    ],
)
def test_what_somebody_else_put_there_stays_inside_of_the_folder(
    tmp_path: Path, repository: str, path: str, kind: bytes, link: str
) -> None:
    info = normal(path, kind, 0o644)
    info.linkname = link
    layer = pack_layer([(info, io.BytesIO())], Blobs(tmp_path))
    described = {"mediaType": MEDIA_TYPE, "digest": layer.digest, "size": layer.bytes}
    config = {"architecture": "amd64", "os": "linux", "config": {}, "rootfs": {"type": "layers", "diff_ids": []}}
    write_layout(tmp_path / "layout", Blobs(tmp_path), config, [described])
    push(tmp_path / "layout", attestation_of(repository, DIGEST))
    with pytest.raises(BadInput, match=r" in it; accepted: regular files, \d+ bytes in all$"):
        fetch_attestation(attestation_of(repository, DIGEST), tmp_path / "into" / "folder")
    assert not (tmp_path / "into" / "folder").exists() and not list(tmp_path.rglob("outside"))


def test_an_image_is_no_attestation(tmp_path: Path, repository: str) -> None:
    layers = [pack_layer([(normal(name), None)], Blobs(tmp_path)) for name in ("a", "b")]
    described = [{"mediaType": MEDIA_TYPE, "digest": layer.digest, "size": layer.bytes} for layer in layers]
    write_layout(tmp_path / "layout", Blobs(tmp_path), {"rootfs": {"type": "layers", "diff_ids": []}}, described)
    push(tmp_path / "layout", attestation_of(repository, DIGEST))
    with pytest.raises(BadInput, match=r" has 2 layers; accepted: an attestation, which has one$"):
        fetch_attestation(attestation_of(repository, DIGEST), tmp_path / "folder")

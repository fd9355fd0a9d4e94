"""What goes with an image and cannot be inside it: a folder, packed as an image of one layer under a tag of its own.

The tag is `sha256-<hex of the image's digest>.att`, beside the image: registries that know no referrers keep it too,
and every client can fetch it. Where a registry knows referrers, `subject` links the two as well.
"""

from __future__ import annotations

import tarfile
import tempfile
from pathlib import Path

from ledger.atomic import replacing_folder
from ledger.digest import parse_json, sha256_bytes, sha256_file
from ledger.errors import BadInput
from publish.image.blobs import Blobs
from publish.image.layer import MEDIA_TYPE, File, layer_of
from publish.image.layout import MANIFEST, Image, write_layout
from publish.image.reference import parse
from publish.image.registry import Pushed, head, pull, push

ARTIFACT_TYPE = "application/vnd.neff-foundry.attestation.v1"
IMAGE = "image.json"
# Beyond every honest attestation, and nothing that fills a disk.
_MOST_BYTES = 256 << 20


def attestation_of(reference: str, digest: str) -> str:
    """Where the attestation of the image with that digest is, in the repository of `reference`."""
    return str(parse(reference).tagged(f"{digest.replace(':', '-')}.att"))


def pack(folder: Path, layout: Path) -> Image:
    """Pack `folder`, which has the image's manifest as image.json, into the `oci:` folder `layout`."""
    try:
        subject = (folder / IMAGE).read_bytes()
    except OSError as error:
        raise BadInput(f"{folder / IMAGE} cannot be read: {error.strerror}; accepted: an image's manifest") from None
    paths = [path for path in folder.rglob("*") if path.is_symlink() or not path.is_dir()]
    if bad := [path for path in paths if path.is_symlink() or not path.is_file()]:
        raise BadInput(f"{bad[0]} is no regular file; accepted in an attestation: only those")
    files = [File(path.relative_to(folder).as_posix(), sha256_file(path), path.stat().st_size, path) for path in paths]
    with tempfile.TemporaryDirectory(prefix="attestation-") as aside:
        layer = layer_of(files, Path(aside))
        config = {
            "architecture": "amd64",
            "os": "linux",
            "config": {},
            "rootfs": {"type": "layers", "diff_ids": [layer.diff_id]},
        }
        described = {"mediaType": MEDIA_TYPE, "digest": layer.digest, "size": layer.bytes}
        link = {"mediaType": MANIFEST, "digest": f"sha256:{sha256_bytes(subject)}", "size": len(subject)}
        return write_layout(layout, Blobs(Path(aside)), config, [described], subject=link, artifactType=ARTIFACT_TYPE)


def push_attestation(folder: Path, reference: str) -> Pushed:
    """Put the attestation in `folder` beside the image that it is of, in the repository of `reference`."""
    with tempfile.TemporaryDirectory(prefix="attestation-") as aside:
        layout = Path(aside, "layout")
        pack(folder, layout)
        digest = f"sha256:{sha256_file(folder / IMAGE)}"
        return push(layout, attestation_of(reference, digest))


def attested(reference: str, digest: str) -> str | None:
    """The digest of the attestation of the image with `digest`, which is not fetched; None when there is none."""
    return head(attestation_of(reference, digest))


def fetch_attestation(reference: str, folder: Path) -> str:
    """Fetch an attestation, by what `attestation_of` says or by its digest, into `folder`, replaced whole; its digest.

    Raises BadInput when it is not there, or is no attestation.
    """
    with tempfile.TemporaryDirectory(prefix="attestation-") as aside:
        layout = Path(aside, "layout")
        digest = pull(reference, layout)
        unpack(layout, digest, folder)
    return digest


def unpack(layout: Path, digest: str, folder: Path) -> None:
    """Unpack the attestation whose manifest is `digest`, in the `oci:` folder `layout`, into `folder`, replaced whole.

    Raises BadInput when the manifest or its one layer is missing or damaged, or is no attestation.
    """
    blobs = Blobs(layout)
    manifest = parse_json(blobs.read(digest), str(blobs.path(digest)))
    layers = manifest.get("layers") if isinstance(manifest, dict) else None
    if not isinstance(layers, list) or len(layers) != 1:
        count = len(layers) if isinstance(layers, list) else "no"
        raise BadInput(f"{digest} has {count} layers; accepted: an attestation, which has one")
    layer = str(layers[0].get("digest"))
    if not blobs.intact(layer):
        raise BadInput(f"{blobs.path(layer)} is missing or damaged; accepted: the blob of that digest")
    with replacing_folder(folder) as fresh:
        try:
            with tarfile.open(blobs.path(layer), "r|gz") as tar:
                _write(tar, fresh, digest)
        except (tarfile.TarError, EOFError, OSError, ValueError) as error:
            said = " ".join(str(error).split())
            raise BadInput(f"{digest} cannot be unpacked: {said}; accepted: an attestation") from None


def _write(tar: tarfile.TarFile, folder: Path, digest: str) -> None:
    """Regular files only, inside of `folder` only: whoever can write to the registry has chosen them."""
    left = _MOST_BYTES
    for info in tar:
        left -= info.size
        parts = Path(info.name).parts
        if not (info.isreg() or info.isdir()) or info.name.startswith("/") or ".." in parts or left < 0:
            raise BadInput(f"{digest}: {info.name!r} in it; accepted: regular files, {_MOST_BYTES} bytes in all")
        path = folder / info.name
        if (file := tar.extractfile(info)) is None:
            path.mkdir(parents=True, exist_ok=True)
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(file.read())

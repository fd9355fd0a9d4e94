"""The attestation of an image out of an OCI layout that holds both."""

from __future__ import annotations

import tarfile
from pathlib import Path

from publish.trust.kinds import Refused
from publish.verify.image import check_blobs, checked

# Beyond every honest attestation, and nothing that fills a disk.
_MOST_BYTES = 256 << 20


def unpack(layout: Path, digest: str, folder: Path) -> None:
    """Write the files of the one layer of the manifest `digest` into `folder`, which is there and empty.

    Raises Refused for blobs that are missing, changed, or hold anything but regular files below the folder.
    """
    layers = check_blobs(layout, digest)
    if len(layers) != 1:
        raise Refused("unsigned", f"{digest} has {len(layers)} layers; accepted: an attestation, which has one")
    left = _MOST_BYTES
    try:
        with tarfile.open(checked(layout, layers[0]), "r:*") as tar:
            for info in tar:
                left -= info.size
                if info.isdir():
                    continue
                if not info.isreg() or info.name.startswith("/") or ".." in Path(info.name).parts or left < 0:
                    raise Refused("extra_file", f"{digest} holds {info.name!r}; accepted: files of an attestation")
                path = folder / info.name
                path.parent.mkdir(parents=True, exist_ok=True)
                file = tar.extractfile(info)
                path.write_bytes(file.read() if file else b"")
    except (tarfile.TarError, OSError, EOFError, ValueError) as error:
        said = " ".join(str(error).split())
        raise Refused("file_changed", f"{digest} cannot be unpacked: {said}; accepted: an attestation") from None

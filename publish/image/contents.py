"""What of a release goes into a variant's image, layer by layer: the same files at the same paths, below /release.

Left out is what nobody reads at run time: the card and receipts, which travel with the signature, and other variants.
"""

from __future__ import annotations

import posixpath
from collections.abc import Mapping
from pathlib import Path

from ledger.errors import BadInput
from publish.image.layer import File, Squeeze
from publish.trust.release import Listed
from serve.errors import ServeError
from serve.manifest import MANIFEST, FileRef, Manifest
from serve.service.start import SELFCHECK

ROOT = "release"
# In the order of the image: what changes least is lowest, and every layer is one that other images can share.
LAYERS = ("tables", "weights", "graphs", "server")
SQUEEZE = {"tables": Squeeze.TENSORS, "weights": Squeeze.TENSORS, "graphs": Squeeze.CODE, "server": Squeeze.CODE}
_TEXTS = ("LICENSE", "NOTICE")


def variant_folder(name: str) -> str:
    """The artifact's folder, in a release as in an image."""
    return f"variants/{name}"


def read_manifest(release: Path, listed: Listed, name: str) -> Manifest:
    """The artifact's manifest; BadInput when the release has no such variant."""
    if name not in listed.variants:
        raise BadInput(f"{release}: variant {name!r} is not in it; accepted: {', '.join(listed.variants)}")
    try:
        return Manifest.read(release / variant_folder(name))
    except ServeError as error:
        raise BadInput(str(error)) from None


def layer_files(release: Path, listed: Listed, name: str, manifest: Manifest) -> Mapping[str, list[File]]:
    """The files of each layer; BadInput when the release does not list one that the variant needs."""
    folder = variant_folder(name)

    def below(*refs: FileRef) -> list[str]:
        return [posixpath.normpath(f"{folder}/{ref.path}") for ref in refs]

    selfcheck = f"{folder}/{SELFCHECK}"
    paths = {
        "tables": below(manifest.tables, *manifest.tokenizer.values()),
        "weights": below(*manifest.weights),
        "graphs": [
            f"{folder}/{MANIFEST}",
            *below(*manifest.own_files()),
            *([selfcheck] if selfcheck in listed.files else []),
        ],
        "server": [*_TEXTS, *(path for path in listed.files if path.startswith(("serve/", "licences/")))],
    }
    return {layer: [_file(release, listed, path) for path in sorted(set(paths[layer]))] for layer in LAYERS}


def _file(release: Path, listed: Listed, path: str) -> File:
    ref = listed.files.get(path)
    if ref is None:
        raise BadInput(f"{release}: {path} is not in its list; accepted: a release with every file of its variants")
    return File(f"{ROOT}/{path}", ref.sha256, ref.bytes, release / path)

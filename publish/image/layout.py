"""An image as a folder, in OCI image layout: what skopeo and buildah call `oci:DIR`. One image a folder."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ledger.atomic import replacing_folder
from ledger.digest import canonical_json, parse_json
from ledger.errors import BadInput
from publish.image.blobs import Blobs

MANIFEST = "application/vnd.oci.image.manifest.v1+json"
CONFIG = "application/vnd.oci.image.config.v1+json"
_INDEX = "application/vnd.oci.image.index.v1+json"


# The same for every image: EPOCH of its layers.
CREATED = "1980-01-01T00:00:00Z"
# How a layer's entry in the history begins that was made here; the rest is its name.
MADE_HERE = "neff-foundry: "


@dataclass(frozen=True)
class Placed:
    """A layer of an image by name; bytes as pulled."""

    name: str
    digest: str
    bytes: int


@dataclass(frozen=True)
class Image:
    """A manifest and its config, as bytes and as what is in them; `digest` is the manifest's."""

    digest: str
    manifest_bytes: bytes
    config_bytes: bytes

    @property
    def manifest(self) -> dict[str, Any]:
        """The manifest."""
        return dict(json.loads(self.manifest_bytes))

    @property
    def config(self) -> dict[str, Any]:
        """The configuration, with `config`, `rootfs` and `history`."""
        return dict(json.loads(self.config_bytes))

    @property
    def layers(self) -> list[dict[str, Any]]:
        """Descriptors of the layers, the base first."""
        return list(self.manifest["layers"])

    @property
    def bytes(self) -> int:
        """Of everything that is pulled, in bytes."""
        return len(self.manifest_bytes) + sum(self.blobs().values())

    def placed(self) -> tuple[Placed, ...]:
        """The layers with their names; what was not made here is base, and the last of it dependencies."""
        history = [entry.get("created_by", "") for entry in self.config["history"] if not entry.get("empty_layer")]
        names = [text.removeprefix(MADE_HERE) if text.startswith(MADE_HERE) else "base" for text in history]
        if "dependencies" not in names and "base" in names:
            names[len(names) - 1 - names[::-1].index("base")] = "dependencies"
        return tuple(
            Placed(name, layer["digest"], layer["size"]) for name, layer in zip(names, self.layers, strict=True)
        )

    def blobs(self) -> dict[str, int]:
        """Bytes of every blob but the manifest, by digest."""
        parts = (self.manifest["config"], *self.layers)
        return {part["digest"]: part["size"] for part in parts}


def write_layout(
    folder: Path,
    blobs: Blobs,
    config: Mapping[str, Any],
    layers: Sequence[Mapping[str, Any]],
    **more: Any,
) -> Image:
    """Lay out the image of `layers` (descriptors of what is in `blobs`) in `folder`, which it replaces whole.

    `more` are further keys of the manifest.
    """
    config_bytes = canonical_json(config)
    with replacing_folder(folder) as aside:
        own = Blobs(aside)
        for layer in layers:
            blobs.lend(layer["digest"], own)
        described = {"mediaType": CONFIG, "digest": own.put(config_bytes), "size": len(config_bytes)}
        manifest = {"schemaVersion": 2, "mediaType": MANIFEST, "config": described, "layers": list(layers), **more}
        manifest_bytes = canonical_json(manifest)
        digest = own.put(manifest_bytes)
        named = {"mediaType": MANIFEST, "digest": digest, "size": len(manifest_bytes)}
        index = {"schemaVersion": 2, "mediaType": _INDEX, "manifests": [named]}
        (aside / "index.json").write_bytes(canonical_json(index))
        (aside / "oci-layout").write_bytes(canonical_json({"imageLayoutVersion": "1.0.0"}))
    return Image(digest, manifest_bytes, config_bytes)


def read_layout(folder: Path) -> Image:
    """The image in `folder`, manifest and config checked against their digests; BadInput when it is not one image."""
    path = folder / "index.json"
    try:
        index = parse_json(path.read_bytes(), str(path))
    except OSError as error:
        raise BadInput(f"{path} cannot be read: {error.strerror}; accepted: a folder in OCI image layout") from None
    manifests = index.get("manifests") if isinstance(index, dict) else None
    if not isinstance(manifests, list) or len(manifests) != 1:
        raise BadInput(f"{path}: manifests: found {_count(manifests)}; accepted: one image")
    blobs = Blobs(folder)
    digest = str(manifests[0].get("digest"))
    manifest_bytes = blobs.read(digest)
    manifest = parse_json(manifest_bytes, str(blobs.path(digest)))
    if not isinstance(manifest, dict) or manifest.get("mediaType", MANIFEST) != MANIFEST:
        raise BadInput(f"{blobs.path(digest)}: mediaType: found another; accepted: {MANIFEST}")
    return Image(digest, manifest_bytes, blobs.read(str(manifest["config"]["digest"])))


def check_layout(folder: Path) -> Image:
    """`read_layout` with every layer read and checked too; BadInput names the first that is damaged."""
    image = read_layout(folder)
    blobs = Blobs(folder)
    for digest in image.blobs():
        path = blobs.path(digest)
        if not blobs.intact(digest):
            raise BadInput(f"{path} is missing or was damaged; accepted: the blob of that digest")
    return image


def _count(found: Any) -> str:
    return str(len(found)) if isinstance(found, list) else "none"

"""The image of one variant: a runtime (base and dependencies), and on it four layers of a release.

A pure function of the release, the runtime and the labels: no time, no host, no folder gets in, so two builds have one
digest. Layers come from the cache where they were made before, whichever variant or release they were made for.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from config.variant import Target
from publish.image.blobs import Blobs
from publish.image.contents import LAYERS, ROOT, SQUEEZE, layer_files, read_manifest, variant_folder
from publish.image.layer import MEDIA_TYPE, Layer, layer_of
from publish.image.layout import CREATED, MADE_HERE, Image, Placed, check_layout, write_layout
from publish.trust.release import Listed, read_list
from serve.manifest import MANIFEST, Manifest

USER = "10001:10001"
PORT = 8080
_OCI, _OWN = "org.opencontainers.image", "neff-foundry"
# Where EC2 tells an instance that it will be taken back: the server drains then.
_SPOT = {"cpu": {}, "inf2": {"SPOT": "http://169.254.169.254"}}


@dataclass(frozen=True)
class ImageSpec:
    """What is built: `variant` of the release folder, on the runtime in `runtime` (an `oci:` folder), into `layout`.

    `version` is the release's, `revision` the commit of the source, `source` its address. `cache` holds layers.
    """

    release: Path
    variant: str
    runtime: Path
    layout: Path
    cache: Path
    version: str
    revision: str
    source: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Built:
    """An image in the folder `layout`; `digest` is its manifest's, "sha256:<hex>"."""

    layout: Path
    digest: str
    layers: tuple[Placed, ...]

    @property
    def bytes(self) -> int:
        """Of all layers."""
        return sum(layer.bytes for layer in self.layers)


def build(spec: ImageSpec) -> Built:
    """Build the image; BadInput when the release lacks something or a file is not as it is listed."""
    listed = read_list(spec.release)
    manifest = read_manifest(spec.release, listed, spec.variant)
    runtime = check_layout(spec.runtime)
    blobs = Blobs(spec.cache)
    for layer in runtime.layers:
        Blobs(spec.runtime).lend(layer["digest"], blobs)
    files = layer_files(spec.release, listed, spec.variant, manifest)
    made = {name: layer_of(files[name], spec.cache, SQUEEZE[name]) for name in LAYERS if files[name]}
    described = [{"mediaType": MEDIA_TYPE, "digest": one.digest, "size": one.bytes} for one in made.values()]
    image = write_layout(
        spec.layout, blobs, _config(spec, listed, manifest, runtime, made), [*runtime.layers, *described]
    )
    return Built(spec.layout, image.digest, image.placed())


def _config(
    spec: ImageSpec, listed: Listed, manifest: Manifest, runtime: Image, made: Mapping[str, Layer]
) -> dict[str, Any]:
    below = runtime.config
    return {
        "architecture": below["architecture"],
        "os": below["os"],
        "created": CREATED,
        "config": {
            "User": USER,
            "ExposedPorts": {f"{PORT}/tcp": {}},
            "Env": _environment(below["config"].get("Env", []), manifest.variant.target),
            "Entrypoint": ["python3", "-m", "serve", f"/{ROOT}/{variant_folder(spec.variant)}"],
            "WorkingDir": f"/{ROOT}",
            "StopSignal": "SIGTERM",
            "Labels": _labels(spec, listed, manifest, runtime),
        },
        "rootfs": {
            "type": "layers",
            "diff_ids": [*below["rootfs"]["diff_ids"], *(one.diff_id for one in made.values())],
        },
        "history": [
            *below.get("history", []),
            *({"created": CREATED, "created_by": f"{MADE_HERE}{name}"} for name in made),
        ],
    }


def _environment(inherited: list[str], target: Target) -> list[str]:
    own = {"HOST": "0.0.0.0", "PORT": str(PORT), "PYTHONDONTWRITEBYTECODE": "1", "PYTHONUNBUFFERED": "1"}
    there = dict(one.split("=", 1) for one in inherited)
    return [f"{name}={value}" for name, value in (there | own | _SPOT[target]).items()]


def _labels(spec: ImageSpec, listed: Listed, manifest: Manifest, runtime: Image) -> dict[str, str]:
    below = runtime.config["config"].get("Labels") or {}
    # Versions of the SDK, on inf2.
    kept = {name: value for name, value in below.items() if name.startswith(_OWN)}
    point = manifest.variant
    found = {
        f"{_OCI}.title": f"{listed.name} {spec.variant}",
        f"{_OCI}.description": f"{listed.name}, {point.kv_max} tokens of context, for target {point.target}: OpenAI "
        "routes on port 8080",
        f"{_OCI}.version": spec.version,
        f"{_OCI}.revision": spec.revision,
        f"{_OCI}.licenses": "Apache-2.0",
        f"{_OCI}.base.digest": below.get(f"{_OCI}.base.digest", runtime.digest),
        f"{_OWN}.variant": spec.variant,
        f"{_OWN}.target": point.target,
        f"{_OWN}.artifact": f"sha256:{listed.files[f'{variant_folder(spec.variant)}/{MANIFEST}'].sha256}",
        f"{_OWN}.checkpoint": manifest.checkpoint,
        f"{_OWN}.checkpoint.revision": manifest.revision,
    }
    if spec.source:
        found[f"{_OCI}.source"] = spec.source
    return kept | found | dict(spec.labels)

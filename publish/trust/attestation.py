"""What an image is signed by: a signed folder that travels beside it.

An image cannot hold a signature over itself, and is reproducible only while it holds none. So the folder has the bytes
of the image's manifest, which name every other blob by digest, and what a verifier wants to know besides.

    image.json, config.json     the image's OCI manifest and its configuration, byte for byte
    manifest.json, receipts/    of the variant: what was judged, and by whom it passed
    sbom.cdx.json, provenance.json, LICENSE, NOTICE, licences/, model.sig
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from cyclonedx.model.component import ComponentType

from ledger.digest import sha256_bytes
from ledger.errors import BadInput
from publish.gate import STAGES
from publish.trust.compare import check_files, reader
from publish.trust.judge import judge_licences, judge_manifest, judge_parity, judge_provenance, judge_receipts, parsed
from publish.trust.kinds import Refused, Verdict
from publish.trust.licences import Licence
from publish.trust.provenance import image_provenance
from publish.trust.release import PROVENANCE, SBOM, SIGNATURE
from publish.trust.sbom import DebianPackage, sbom
from publish.trust.trusted import Trusted
from serve.manifest import MANIFEST

IMAGE, CONFIG = "image.json", "config.json"
RECEIPTS = "receipts"
VARIANT_LABEL, ARTIFACT_LABEL = "neff-foundry.variant", "neff-foundry.artifact"
_LEGAL = ("LICENSE", "NOTICE")
_PLATFORM = ("linux", "amd64")


def attestation(
    image: bytes,
    config: bytes,
    *,
    release: Callable[[str], bytes],
    files: Mapping[str, str],
    packages: Iterable[Licence],
    debian: Iterable[DebianPackage],
) -> tuple[dict[str, bytes], bytes]:
    """The files by path, and the provenance that is to be signed with them.

    `image` is the image's OCI manifest and `config` its configuration; `release` reads a file of the signed release,
    provenance included; `files` are what the image holds of it, sha256 by path.
    """
    labels = _labels(config)
    variant, title = labels[VARIANT_LABEL], labels["org.opencontainers.image.title"]
    legal = list(packages)
    folder = f"variants/{variant}"
    contents = {
        IMAGE: image,
        CONFIG: config,
        MANIFEST: release(f"{folder}/{MANIFEST}"),
        **{f"{RECEIPTS}/{stage}.json": release(f"{folder}/receipts/{stage}.json") for stage in STAGES},
        **{name: release(name) for name in _LEGAL},
        **{one.path: one.text.encode() for one in legal},
        SBOM: sbom(title, ComponentType.CONTAINER, packages=legal, files=files, debian=debian),
    }
    return contents, image_provenance(release(PROVENANCE), variant, sha256_bytes(image))


def verify_attestation(folder: Path, trusted: Trusted) -> Verdict:
    """Judge the attestation in `folder`, whose digest is then that of the image; the image itself is not looked at.

    Raises BadInput when there is no such folder.
    """
    if not folder.is_dir():
        raise BadInput(f"{folder} is no folder; accepted: the attestation of an image")
    digest = ""
    try:
        if not (folder / IMAGE).exists() and not (folder / SIGNATURE).exists():
            raise Refused("not_a_release", f"{folder} has no {IMAGE}; accepted: the attestation of an image")
        statement = check_files(folder, trusted)
        digest = f"sha256:{statement.files.get(IMAGE, '')}"
        variant = _judge(folder, statement.files)
    except Refused as refused:
        return Verdict(refused.kind, str(refused), digest)
    return Verdict("ok", f"image of {variant} as signed by {statement.signer}; parity passed", digest)


def _judge(folder: Path, files: Mapping[str, str]) -> str:
    """The variant of an attestation that is complete, passed, and of an image that this version's runtimes know."""
    read = reader(folder, files)
    image, config = parsed(read(IMAGE), IMAGE, "not_a_release"), read(CONFIG)
    for name in _LEGAL:
        read(name)
    judge_licences(read(SBOM), files)
    if _at(image, "config", "digest") != f"sha256:{files[CONFIG]}":
        raise Refused("file_changed", f"{CONFIG} is not the configuration that {IMAGE} names; accepted: that one")
    parts = parsed(config, CONFIG, "not_a_release")
    if (found := (_at(parts, "os"), _at(parts, "architecture"))) != _PLATFORM:
        raise Refused("incompatible_runtime", f"{CONFIG}: platform is {found}; accepted: {_PLATFORM}")
    labels = _at(parts, "config", "Labels")
    variant, artifact = _at(labels, VARIANT_LABEL), _at(labels, ARTIFACT_LABEL)
    judge_manifest(read(MANIFEST), str(variant))
    if artifact != (accepted := f"sha256:{files[MANIFEST]}"):
        raise Refused("parity_not_passed", f"{CONFIG}: {ARTIFACT_LABEL} is {artifact}; accepted: {accepted}")
    judge_parity(str(variant), judge_receipts(str(variant), RECEIPTS, files, read), files[MANIFEST])
    judge_provenance(read(PROVENANCE), {IMAGE: files[IMAGE]})
    return str(variant)


def _labels(config: bytes) -> dict[str, str]:
    return dict(json.loads(config)["config"]["Labels"])


def _at(value: Any, *keys: str) -> Any:
    for key in keys:
        value = value.get(key) if isinstance(value, dict) else None
    return value

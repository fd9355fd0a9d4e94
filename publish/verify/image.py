"""The judge of an image: its attestation, and then every blob of it."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from ledger.digest import parse_json, sha256_file
from ledger.errors import BadInput
from publish.trust.attestation import verify_attestation
from publish.trust.kinds import Refused, Verdict
from publish.trust.release import is_plain
from publish.trust.trusted import Trusted

# The tag of an attestation, as publish.image.attest gives it.
_ATTESTATION = re.compile(r"sha256-[0-9a-f]{64}\.att")
_NAME = "org.opencontainers.image.ref.name"
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")


def verify_image(layout: Path, attestation: Path, trusted: Trusted) -> Verdict:
    """Judge the image in the OCI layout `layout` by its attestation, a folder.

    Raises BadInput when `attestation` is no folder.
    """
    verdict = verify_attestation(attestation, trusted)
    if not verdict.ok:
        return verdict
    try:
        there = named(layout)
        if verdict.digest not in there:
            found = ", ".join(there) or "none"
            raise Refused("bad_signature", f"the attestation is of {verdict.digest}; accepted: of {found}")
        layers = check_blobs(layout, verdict.digest)
    except Refused as refused:
        return Verdict(refused.kind, str(refused), verdict.digest)
    return Verdict("ok", f"{verdict.sentence}; {len(layers)} layers as attested", verdict.digest)


def named(layout: Path) -> dict[str, str]:
    """What an OCI layout holds: the tag of each manifest (or "") by digest; Refused when it is no layout."""
    path = layout / "index.json"
    try:
        index = parse_json(path.read_bytes(), str(path))
        there = {one["digest"]: one.get("annotations", {}).get(_NAME, "") for one in index["manifests"]}
        if not all(_DIGEST.fullmatch(digest) and isinstance(name, str) for digest, name in there.items()):
            raise ValueError
        return there
    except (OSError, BadInput, LookupError, TypeError, AttributeError, ValueError):
        raise Refused("not_a_release", f"{path} is no index of images; accepted: an OCI image layout") from None


def choose(layout: Path, tag: str = "") -> tuple[str, str | None]:
    """The digests of an image in `layout`, the only one or that with `tag`, and of its attestation if there is one."""
    there = named(layout)
    images = [digest for digest, name in there.items() if not _ATTESTATION.fullmatch(name) and tag in ("", name)]
    if len(images) != 1:
        wanted = f"with tag {tag}" if tag else "and no tag is given"
        raise Refused("not_a_release", f"{layout} holds {len(images)} images {wanted}; accepted: one image")
    own = f"{images[0].replace(':', '-')}.att"
    return images[0], next((digest for digest, name in there.items() if name == own), None)


def check_blobs(layout: Path, digest: str) -> list[str]:
    """The digests of the layers of the manifest `digest`, all of whose blobs are as their names say."""
    try:
        manifest = json.loads(checked(layout, digest).read_bytes())
        parts = [(part["digest"], part["size"]) for part in (manifest["config"], *manifest["layers"])]
    except (LookupError, TypeError, ValueError):
        raise Refused("not_a_release", f"{digest} in {layout} is no manifest; accepted: that of an OCI image") from None
    for name, size in parts:
        if (found := checked(layout, name).stat().st_size) != size:
            raise Refused("file_changed", f"{name} in {layout} has {found} bytes; accepted: {size}")
    return [name for name, _ in parts[1:]]


def checked(layout: Path, digest: Any) -> Path:
    """The blob `digest` of a layout, read and found to be that; Refused when it is not."""
    if not (isinstance(digest, str) and _DIGEST.fullmatch(digest)):
        raise Refused("file_changed", f"{layout}: a blob is named {digest!r}; accepted: sha256:<64 hexadecimal digits>")
    path = layout / "blobs" / "sha256" / digest.removeprefix("sha256:")
    if not path.exists():
        raise Refused("file_missing", f"{path} is missing; accepted: every blob that the image names")
    if not is_plain(path) or f"sha256:{sha256_file(path)}" != digest:
        raise Refused("file_changed", f"{path} changed; accepted: the blob with that digest")
    return path

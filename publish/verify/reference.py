"""What a REF means, and how each kind of it gets onto the disk. Judging itself never reaches a network.

DIR                            a release folder, or the attestation of an image
oci:DIR[:TAG]                  an OCI layout with an image and its attestation
hub:OWNER/NAME[@REVISION]      fetched first; the revision is main unless it is given
docker://HOST/NAME:TAG, docker://HOST/NAME@sha256:DIGEST     fetched first, with its attestation
"""

from __future__ import annotations

import re
import tempfile
from pathlib import Path

from ledger.errors import BadInput, GateFailed
from publish.trust.attestation import IMAGE, verify_attestation
from publish.trust.kinds import Refused, Verdict
from publish.trust.release import LIST
from publish.trust.trusted import Trusted
from publish.trust.verdicts import verify_folder
from publish.verify.image import choose, verify_image
from publish.verify.unpack import unpack

ACCEPTED = "DIR, oci:DIR[:TAG], hub:OWNER/NAME[@REVISION], docker://HOST/NAME:TAG or docker://HOST/NAME@DIGEST"
_HUB = re.compile(r"(?P<repo>[A-Za-z0-9_.-]+/[A-Za-z0-9_.-]+)(?:@(?P<revision>[A-Za-z0-9_./-]+))?")


def judge(reference: str, trusted: Trusted) -> Verdict:
    """Judge what `reference` names; BadInput when it names nothing."""
    for prefix, of_kind in (("oci:", _layout), ("hub:", _hub), ("docker://", _registry)):
        if reference.startswith(prefix):
            with tempfile.TemporaryDirectory(prefix="verify-") as aside:
                try:
                    return of_kind(reference.removeprefix(prefix), Path(aside), trusted)
                except GateFailed as error:
                    # What could not be fetched was not judged.
                    raise BadInput(str(error)) from None
    return _folder(Path(reference), trusted)


def _folder(folder: Path, trusted: Trusted) -> Verdict:
    if not folder.is_dir():
        raise BadInput(f"{str(folder)!r} is no folder; accepted: {ACCEPTED}")
    if (folder / IMAGE).exists() and not (folder / LIST).exists():
        return verify_attestation(folder, trusted)
    return verify_folder(folder, trusted)


def _layout(place: str, aside: Path, trusted: Trusted) -> Verdict:
    name, _, tag = (place, "", "") if Path(place).is_dir() else place.rpartition(":")
    layout = Path(name)
    if not name or not layout.is_dir():
        raise BadInput(f"oci:{place} names no folder; accepted: oci:DIR or oci:DIR:TAG")
    try:
        image, attestation = choose(layout, tag)
        if attestation is None:
            return Verdict("unsigned", f"{layout} holds no attestation of {image}; accepted: an image with one", image)
        unpack(layout, attestation, aside)
    except Refused as refused:
        return Verdict(refused.kind, str(refused))
    return verify_image(layout, aside, trusted)


def _hub(name: str, aside: Path, trusted: Trusted) -> Verdict:
    match = _HUB.fullmatch(name)
    if match is None:
        raise BadInput(f"hub:{name} is of another form; accepted: hub:OWNER/NAME or hub:OWNER/NAME@REVISION")
    from publish.hub.download import download

    folder = aside / "release"
    download(match["repo"], match["revision"] or "main", folder)
    return verify_folder(folder, trusted)


def _registry(name: str, aside: Path, trusted: Trusted) -> Verdict:
    from publish.image.attest import attestation_of, attested, fetch_attestation
    from publish.image.reference import parse
    from publish.image.registry import head, pull

    layout, folder = aside / "image", aside / "attestation"
    if (digest := head(name)) is None:
        raise BadInput(f"{name} is not in its registry; accepted: a repository and an image that are there")
    if attested(name, digest) is None:
        return Verdict("unsigned", f"{name} has no attestation of {digest}; accepted: an image with one", digest)
    fetch_attestation(attestation_of(name, digest), folder)
    # An image may have many gigabytes, and nobody needs those of one that is not trusted.
    if not (verdict := verify_attestation(folder, trusted)).ok:
        return verdict
    pull(str(parse(name).at(digest)), layout)
    return verify_image(layout, folder, trusted)

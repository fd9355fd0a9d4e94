"""Images to a registry and back, by skopeo: digests stay what they are, and blobs that are there are not sent again."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from ledger.atomic import replacing_folder
from ledger.digest import sha256_bytes
from ledger.errors import GateFailed
from publish.image.blobs import Blobs
from publish.image.layout import read_layout
from publish.image.reference import SCHEME, Reference, parse
from publish.image.skopeo import Absent, skopeo, tls

_SENT = re.compile(r"Upload of layer (sha256:[0-9a-f]{64}) complete")


@dataclass(frozen=True)
class Pushed:
    """`digest` is the manifest's that the registry holds now; what was sent for it, the manifest not counted."""

    digest: str
    blobs_sent: int
    bytes_sent: int


@dataclass(frozen=True)
class Blob:
    """A blob of an image: bytes, and whether the registry has it."""

    digest: str
    bytes: int
    held: bool


@dataclass(frozen=True)
class Plan:
    """What a push would do; `held` says that this very image is there already."""

    reference: Reference
    digest: str
    held: bool
    blobs: tuple[Blob, ...]

    @property
    def bytes(self) -> int:
        """Bytes that would be sent."""
        return sum(blob.bytes for blob in self.blobs if not blob.held)


def push(layout: Path, reference: str) -> Pushed:
    """Send the image in the `oci:` folder `layout` to `reference`, a tag; nothing when the tag is this image already.

    Raises BadInput when the registry refuses, and GateFailed when it then holds another digest than was sent.
    """
    name, image = parse(reference), read_layout(layout)
    if head(reference) == image.digest:
        return Pushed(image.digest, 0, 0)
    done = _copy(f"oci:{layout.name}", SCHEME + str(name), [*tls("dest-tls-verify", name)], name, layout.parent)
    sent, sizes = set(_SENT.findall(done)), image.blobs()
    return Pushed(_confirmed(name, image.digest), len(sent), sum(sizes[digest] for digest in sent))


def pull(reference: str, layout: Path, known: Path | None = None) -> str:
    """Fetch an image, every blob of it, into the `oci:` folder `layout`, which is replaced whole; its digest.

    Blobs of the `oci:` folder `known` are taken from there and not fetched again; they are not read, `check_layout`
    does that. Raises BadInput when the image is not there, GateFailed when what came is not what was asked for.
    """
    name = parse(reference)
    with replacing_folder(layout) as aside:
        if known is not None:
            for path in Blobs(known).folder.iterdir():
                Blobs(known).lend(f"sha256:{path.name}", Blobs(aside))
        origin = name.at(name.digest) if name.digest else name
        _copy(SCHEME + str(origin), f"oci:{aside.name}", [*tls("src-tls-verify", name)], name, aside.parent)
        found = read_layout(aside).digest
        if name.digest and found != name.digest:
            raise GateFailed(f"{name}: what was pulled has digest {found}; accepted: {name.digest}")
    return found


def head(reference: str) -> str | None:
    """The digest of what the registry holds under a tag or digest, by its manifest; None when there is nothing."""
    name = parse(reference)
    try:
        return f"sha256:{sha256_bytes(_manifest(name))}"
    except Absent:
        return None


def retag(source: str, tag: str) -> str:
    """Give what is at `source` (a tag or digest) another tag in its repository, without moving a blob; its digest."""
    name = parse(source)
    digest = f"sha256:{sha256_bytes(_manifest(name))}"
    wanted = name.tagged(tag)
    if head(str(wanted)) != digest:
        flags = [*tls("src-tls-verify", name), *tls("dest-tls-verify", name)]
        _copy(SCHEME + str(name.at(digest)), SCHEME + str(wanted), flags, wanted, None)
    return _confirmed(wanted, digest)


def plan_push(layout: Path, reference: str) -> Plan:
    """What `push` would send, blob by blob; nothing is sent.

    A blob counts as held when some tag of the repository names it, so what an interrupted push left is not seen, and
    the true push may send less.
    """
    name, image = parse(reference), read_layout(layout)
    held = _held(name)
    blobs = tuple(Blob(digest, size, digest in held) for digest, size in image.blobs().items())
    return Plan(name, image.digest, head(reference) == image.digest, blobs)


def list_tags(reference: str) -> list[str]:
    """The tags of a repository, sorted; none when the registry has no such repository."""
    name = parse(reference)
    try:
        done = skopeo("list-tags", *tls("tls-verify", name), SCHEME + name.repository, about=name)
    except Absent:
        return []
    return sorted(json.loads(done.printed)["Tags"] or ())


def _held(name: Reference) -> set[str]:
    manifests = (json.loads(_manifest(name.tagged(tag))) for tag in list_tags(str(name)))
    return {part["digest"] for manifest in manifests for part in _parts(manifest)}


def _parts(manifest: dict[str, list[dict[str, str]]]) -> Iterable[dict[str, str]]:
    # An index has neither.
    return [part for part in (manifest.get("config"), *manifest.get("layers", ())) if isinstance(part, dict)]


def _manifest(name: Reference) -> bytes:
    done = skopeo("inspect", "--raw", *tls("tls-verify", name), SCHEME + str(name), about=name)
    return done.printed


def _confirmed(name: Reference, digest: str) -> str:
    found = head(str(name))
    if found != digest:
        raise GateFailed(f"{name}: the registry holds {found or 'nothing'} after the push; accepted: {digest}")
    return digest


def _copy(origin: str, destination: str, flags: list[str], about: Reference, cwd: Path | None) -> str:
    return skopeo("copy", "--preserve-digests", *flags, origin, destination, about=about, cwd=cwd).messages

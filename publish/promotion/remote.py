"""What promotion asks of a registry and of the Hub, and nothing more.

Each object is bound to one repository. `live` has those that go over the network; the tests of the rules have some that
are dictionaries.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from publish.hub.repository import Refs
from publish.hub.trees import Tree


@dataclass(frozen=True)
class Item:
    """A thing that is sent, or would be: a blob, a manifest, a file; with its size in bytes."""

    name: str
    bytes: int

    def __str__(self) -> str:
        return f"{self.name} ({self.bytes:,} bytes)"


@dataclass(frozen=True)
class Sent:
    """What arrived somewhere under `digest` (of a manifest, or a commit), and what had to be sent for it."""

    digest: str
    count: int
    bytes: int


class Registry(Protocol):
    """One repository of images. Digests are "sha256:<hex>" of an OCI manifest."""

    def head(self, tag: str) -> str | None:
        """The digest that a tag, or a digest itself, names; None when there is nothing of that name."""

    def lacking(self, layout: Path, tag: str) -> tuple[Item, ...]:
        """The blobs that a push of the image in the OCI layout would send."""

    def push(self, layout: Path, tag: str) -> Sent:
        """Send the image; its digest is the one that the registry holds."""

    def pull(self, digest: str, layout: Path, known: Path) -> None:
        """Fetch an image by its digest into an OCI layout of its own; blobs that lie in `known` are not fetched."""

    def attach(self, folder: Path) -> Sent:
        """Send an attestation to beside its image; the digest handed back is the attestation's own."""

    def unattached(self, folder: Path) -> tuple[Item, ...]:
        """The blobs that `attach` would send."""

    def attached(self, digest: str) -> str | None:
        """The digest of the attestation that an image has; None when it has none."""

    def fetch(self, attestation: str, folder: Path) -> None:
        """Fetch an attestation by its own digest and unpack it into `folder`."""

    def point(self, tag: str, digest: str) -> None:
        """Let `tag` name the manifest `digest`, which is there."""


class Hub(Protocol):
    """One repository on the Hub. Commits are 40 hexadecimal digits."""

    def lacking(self, folder: Path) -> tuple[Item, ...]:
        """The files that an upload of the folder to the staging branch would send."""

    def upload(self, folder: Path, message: str) -> Sent:
        """Make the staging branch hold the folder, in one commit; none when it does already."""

    def download(self, commit: str, folder: Path) -> None:
        """Fetch all files of a commit into `folder`, which is made."""

    def refs(self) -> Refs:
        """Branches and tags as they are now."""

    def tree(self, commit: str) -> Tree:
        """The files of a commit, each with size and digest."""

    def copied(self, commit: str, version: str) -> tuple[Item, ...]:
        """The files that `promote` would send again, as they are no LFS objects."""

    def promote(self, commit: str, version: str, message: str) -> None:
        """Let main hold what `commit` holds, in one commit, and then the git tag `version` name it."""


@dataclass(frozen=True)
class Remotes:
    """The two places that a release goes to."""

    registry: Registry
    hub: Hub

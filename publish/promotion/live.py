"""The registry and the Hub over the network: `publish.image` and `publish.hub`, bound to one release's repositories."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable
from pathlib import Path

from ledger.digest import sha256_file
from publish.hub.download import download
from publish.hub.plan import Move, plan_promotion, plan_upload
from publish.hub.promote import promote
from publish.hub.repository import Refs, Repository
from publish.hub.trees import Tree
from publish.hub.upload import upload
from publish.image.attest import IMAGE, attestation_of, attested, fetch_attestation, pack, push_attestation
from publish.image.registry import head, plan_push, pull, push, retag
from publish.promotion.destination import BRANCH, Destination
from publish.promotion.remote import Item, Remotes, Sent


class ImageRepository:
    """A repository of images, REGISTRY/NAME; see `publish.promotion.remote.Registry`."""

    def __init__(self, name: str) -> None:
        self._name = name

    def head(self, tag: str) -> str | None:
        return head(self._at(tag) if tag.startswith("sha256:") else f"{self._name}:{tag}")

    def lacking(self, layout: Path, tag: str) -> tuple[Item, ...]:
        return _missing(layout, f"{self._name}:{tag}")

    def push(self, layout: Path, tag: str) -> Sent:
        done = push(layout, f"{self._name}:{tag}")
        return Sent(done.digest, done.blobs_sent, done.bytes_sent)

    def pull(self, digest: str, layout: Path, known: Path) -> None:
        pull(self._at(digest), layout, known)

    def attach(self, folder: Path) -> Sent:
        done = push_attestation(folder, self._name)
        return Sent(done.digest, done.blobs_sent, done.bytes_sent)

    def unattached(self, folder: Path) -> tuple[Item, ...]:
        with tempfile.TemporaryDirectory(prefix="attestation-") as aside:
            layout = Path(aside, "layout")
            pack(folder, layout)
            return _missing(layout, attestation_of(self._name, f"sha256:{sha256_file(folder / IMAGE)}"))

    def attached(self, digest: str) -> str | None:
        return attested(self._name, digest)

    def fetch(self, attestation: str, folder: Path) -> None:
        fetch_attestation(self._at(attestation), folder)

    def point(self, tag: str, digest: str) -> None:
        retag(self._at(digest), tag)

    def _at(self, digest: str) -> str:
        return f"{self._name}@{digest}"


def _missing(layout: Path, reference: str) -> tuple[Item, ...]:
    return tuple(Item(blob.digest, blob.bytes) for blob in plan_push(layout, reference).blobs if not blob.held)


class HubRepository:
    """A repository on the Hub; see `publish.promotion.remote.Hub`."""

    def __init__(self, repo: str, endpoint: str | None) -> None:
        self._repo, self._endpoint = repo, endpoint

    def lacking(self, folder: Path) -> tuple[Item, ...]:
        return _sent(plan_upload(folder, self._repo, branch=BRANCH, endpoint=self._endpoint).moves)

    def upload(self, folder: Path, message: str) -> Sent:
        done = upload(folder, self._repo, branch=BRANCH, message=message, endpoint=self._endpoint)
        return Sent(done.oid, done.files_sent, done.bytes_sent)

    def download(self, commit: str, folder: Path) -> None:
        download(self._repo, commit, folder, endpoint=self._endpoint)

    def refs(self) -> Refs:
        with Repository(self._repo, endpoint=self._endpoint) as hub:
            return hub.refs()

    def tree(self, commit: str) -> Tree:
        with Repository(self._repo, endpoint=self._endpoint) as hub:
            return hub.tree(commit)

    def copied(self, commit: str, version: str) -> tuple[Item, ...]:
        return _sent(plan_promotion(self._repo, commit, tag=version, endpoint=self._endpoint).moves)

    def promote(self, commit: str, version: str, message: str) -> None:
        promote(self._repo, commit, tag=version, message=message, endpoint=self._endpoint)


def _sent(moves: Iterable[Move]) -> tuple[Item, ...]:
    return tuple(Item(move.path, move.sent) for move in moves if move.sent)


def connect(destination: Destination) -> Remotes:
    """The two repositories of a release; nothing is asked of them yet."""
    return Remotes(ImageRepository(destination.image), HubRepository(destination.repo, destination.endpoint))

"""A registry and a Hub that are dictionaries: what the rules of promotion are tested against, by the thousand."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from ledger.digest import digest_json, sha256_bytes
from ledger.errors import GateFailed
from publish.hub.repository import Refs
from publish.hub.trees import Entry
from publish.image.layout import read_layout
from publish.promotion.remote import Item, Sent

Files = Mapping[str, bytes]


def read(folder: Path) -> dict[str, bytes]:
    """Content of every file of a folder by path."""
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def write(files: Files, folder: Path) -> None:
    """The folder that `read` gives back."""
    for name, data in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)


@dataclass(repr=False)
class FakeRegistry:
    """Images and attestations by digest, tags, and the attestation of each image."""

    images: dict[str, Files] = field(default_factory=dict)
    attestations: dict[str, Files] = field(default_factory=dict)
    tags: dict[str, str] = field(default_factory=dict)
    of_image: dict[str, str] = field(default_factory=dict)

    def copy(self) -> FakeRegistry:
        return FakeRegistry(dict(self.images), dict(self.attestations), dict(self.tags), dict(self.of_image))

    def head(self, tag: str) -> str | None:
        return tag if tag in self.images else self.tags.get(tag)

    def lacking(self, layout: Path, tag: str) -> tuple[Item, ...]:
        image = read_layout(layout)
        return () if image.digest in self.images else (Item(image.digest, image.bytes),)

    def push(self, layout: Path, tag: str) -> Sent:
        digest, missing = read_layout(layout).digest, self.lacking(layout, tag)
        self.images.setdefault(digest, read(layout))
        self.tags[tag] = digest
        return Sent(digest, len(missing), sum(item.bytes for item in missing))

    def pull(self, digest: str, layout: Path, known: Path) -> None:
        if digest not in self.images:
            raise GateFailed(f"the registry has no {digest}; accepted: what is there")
        write(self.images[digest], layout)

    def attach(self, folder: Path) -> Sent:
        files = read(folder)
        name = f"sha256:{digest_json({path: sha256_bytes(data) for path, data in files.items()})}"
        new = name not in self.attestations
        self.attestations.setdefault(name, files)
        self.of_image[f"sha256:{sha256_bytes(files['image.json'])}"] = name
        return Sent(name, int(new), new * sum(map(len, files.values())))

    def unattached(self, folder: Path) -> tuple[Item, ...]:
        files = read(folder)
        known = dict(files) in self.attestations.values()
        return () if known else tuple(_items(files))

    def attached(self, digest: str) -> str | None:
        return self.of_image.get(digest)

    def fetch(self, attestation: str, folder: Path) -> None:
        if attestation not in self.attestations:
            raise GateFailed(f"the registry has no {attestation}; accepted: what is there")
        write(self.attestations[attestation], folder)

    def point(self, tag: str, digest: str) -> None:
        assert digest in self.images
        self.tags[tag] = digest


@dataclass(repr=False)
class FakeHub:
    """Files by commit, branches and tags."""

    commits: dict[str, Files] = field(default_factory=lambda: {"0" * 40: {"README.md": b"new"}})
    branches: dict[str, str] = field(default_factory=lambda: {"main": "0" * 40})
    tags: dict[str, str] = field(default_factory=dict)
    messages: dict[str, str] = field(default_factory=dict)

    def copy(self) -> FakeHub:
        return FakeHub(dict(self.commits), dict(self.branches), dict(self.tags), dict(self.messages))

    def lacking(self, folder: Path) -> tuple[Item, ...]:
        there = self.commits[self.branches.get("staging", self.branches["main"])]
        return tuple(Item(name, len(data)) for name, data in read(folder).items() if there.get(name) != data)

    def upload(self, folder: Path, message: str) -> Sent:
        lacking, files = self.lacking(folder), read(folder)
        if self.commits.get(self.branches.get("staging", "")) != files:
            self._commit("staging", files, message)
        return Sent(self.branches["staging"], len(lacking), sum(item.bytes for item in lacking))

    def download(self, commit: str, folder: Path) -> None:
        write(self._files(commit), folder)

    def refs(self) -> Refs:
        return Refs(dict(self.branches), dict(self.tags))

    def tree(self, commit: str) -> dict[str, Entry]:
        return {name: Entry(len(data), f"sha256:{sha256_bytes(data)}") for name, data in self._files(commit).items()}

    def copied(self, commit: str, version: str) -> tuple[Item, ...]:
        return tuple(_items(self._files(commit)))

    def promote(self, commit: str, version: str, message: str) -> None:
        if self.commits[self.branches["main"]] != self.commits[commit]:
            self._commit("main", self.commits[commit], message)
        self.tags[version] = self.branches["main"]

    def _files(self, commit: str) -> Files:
        if commit not in self.commits:
            raise GateFailed(f"the Hub has no commit {commit}; accepted: what is there")
        return self.commits[commit]

    def _commit(self, branch: str, files: Files, message: str) -> None:
        oid = f"{len(self.commits):040x}"
        self.commits[oid], self.branches[branch], self.messages[oid] = files, oid, message


def _items(files: Files) -> Iterable[Item]:
    return (Item(name, len(data)) for name, data in files.items())


def public(registry: FakeRegistry, hub: FakeHub) -> tuple[object, ...]:
    """What pullers see: tags that are not of staging, and what main and each git tag hold."""
    tags = {tag: digest for tag, digest in registry.tags.items() if not tag.startswith("staging-")}
    return tags, hub.branches["main"], dict(hub.tags), {name: hub.tree(oid) for name, oid in hub.tags.items()}

"""A Hub with one repository, release folders of every kind of file, and no real waiting between tries."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace

import pytest
from huggingface_hub import HfApi

from publish.hub.download import Download, download
from publish.hub.promote import promote
from publish.hub.repository import Commit
from publish.hub.upload import upload
from tests.hub import Exchange, Hub
from tests.hub.objects import Entry

REPO = "foundry/model"
PART = 100_000  # larger files come in parts
CARD = b"---\nlicense: apache-2.0\n---\n# A release\n"
SMALL = {
    "README.md": CARD,
    "empty.txt": b"",
    "serve/engine.py": b"print('engine')\n",
    "tür/日本 語.txt": "Grüße".encode(),
    "variants/512/manifest.json": b"{}\n",
}
LARGE = {"weights/one.bin": b"w" * 40_000, "empty.bin": b""}
PARTS = {"weights/parts.safetensors": bytes(range(256)) * 1000}
RELEASE = SMALL | LARGE | PARTS
OLDER = {
    "README.md": CARD + b"older\n",
    "gone/away.txt": b"no more",
    "serve/engine.py": RELEASE["serve/engine.py"],
    "weights/one.bin": b"o" * 30_000,
}

Content = Mapping[str, bytes]


class Log(list[Exchange]):
    """The stand-in's log, with something to do when a request arrives, before it is looked at."""

    def __init__(self, arrived: Callable[[Exchange], None]) -> None:
        self._arrived = arrived

    def append(self, one: Exchange) -> None:
        super().append(one)
        self._arrived(one)


@dataclass
class Place:
    """The repository on its Hub, and the functions under test with its address and token."""

    hub: Hub
    folder: Path
    seconds: list[float] = field(default_factory=list)

    def lay(self, content: Content, name: str = "release") -> Path:
        """A folder of that content."""
        made = self.folder / name
        shutil.rmtree(made, ignore_errors=True)
        for path, data in content.items():
            (made / path).parent.mkdir(parents=True, exist_ok=True)
            (made / path).write_bytes(data)
        return made

    def upload(self, content: Content = RELEASE, branch: str = "staging", *, parent: str | None = None) -> Commit:
        folder = self.lay(content, f"release-{len(list(self.folder.glob('release-*')))}")
        return upload(
            folder, REPO, branch=branch, parent=parent, message="A release", token=self.hub.token,
            endpoint=self.hub.endpoint,
        )  # fmt: skip

    def promote(self, commit: str, tag: str = "v1", to: str = "main") -> Commit:
        return promote(REPO, commit, tag=tag, to=to, token=self.hub.token, endpoint=self.hub.endpoint)

    def download(self, revision: str = "main", name: str = "back") -> Download:
        into = self.folder / name
        return download(REPO, revision, into, token=self.hub.token, endpoint=self.hub.endpoint)

    def commit_elsewhere(self, content: Content, branch: str = "staging") -> str:
        """What another publisher does in an instant: the branch holds `content`."""
        found = self.hub.repository(REPO)
        head = self.head(branch)
        tree = {".gitattributes": found.tree(head)[".gitattributes"]}
        return found.advance(
            branch, tree | {path: self._keep(data) for path, data in content.items()}, "other", "", head
        )

    def _keep(self, data: bytes) -> Entry:
        return self.hub.repository(REPO).objects.keep(data)

    def head(self, branch: str = "staging") -> str:
        return self.hub.repository(REPO).refs("branches")[branch]

    @property
    def tags(self) -> dict[str, str]:
        return self.hub.repository(REPO).refs("tags")

    def content(self, commit: str) -> dict[str, bytes]:
        """Every file of a commit as the Hub's disk has it, but its own."""
        found = self.hub.repository(REPO)
        tree = found.tree(commit)
        return {
            path: found.objects.path(entry).read_bytes() for path, entry in tree.items() if path != ".gitattributes"
        }

    def on_arrival(self, act: Callable[[Exchange], None]) -> None:
        """Do something whenever a request arrives; the log is empty then."""
        self.hub.watch.log = Log(act)

    def sites(self) -> list[str]:
        return [one.site for one in self.hub.log]


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Place]:
    """Files above 100,000 bytes go in parts; a tree comes in pages of eight; `seconds` are the waits not waited."""
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_DISABLE_XET", True)
    with Hub(tmp_path / "hub", part_size=PART, page=8) as hub:
        made = Place(hub, tmp_path / "folders")
        for module in ("huggingface_hub.utils._http", "huggingface_hub.file_download", "publish.hub.client"):
            monkeypatch.setattr(f"{module}.time", SimpleNamespace(sleep=made.seconds.append))
        HfApi(endpoint=hub.endpoint, token=hub.token).create_repo(REPO)
        hub.forget()
        yield made


def back(place: Place, name: str = "back") -> dict[str, bytes]:
    """What a download left."""
    folder = place.folder / name
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}

"""A small checkpoint on the stand-in of the Hub."""

from __future__ import annotations

import hashlib
from pathlib import Path

from huggingface_hub import HfApi

from config.sources import HubSource
from recipes.fetch import WANTED
from recipes.hub.source import obtain
from tests.hub import Hub

REPO = "foundry/gemma"
CARD = b"---\nlicense: apache-2.0\n---\n# A checkpoint\n"
WEIGHTS = bytes(range(256)) * 2000
LARGE = hashlib.sha256(WEIGHTS).hexdigest()


def uploaded(hub: Hub, folder: Path) -> HubSource:
    api = HfApi(endpoint=hub.endpoint, token=hub.token)
    api.create_repo(REPO, exist_ok=True)
    commit = api.upload_folder(repo_id=REPO, folder_path=folder)
    hub.forget()
    return HubSource(kind="hub", repo=REPO, revision=str(commit.oid))


def get(source: HubSource, licence: str = "apache-2.0") -> Path:
    return obtain(source, licence, WANTED)[0]


def stored(hub: Hub, name: str) -> Path:
    """The Hub's own file of a name at main."""
    repository = hub.repository(REPO)
    return repository.objects.path(repository.tree(repository.refs("branches")["main"])[name])


def blobs(cache: Path) -> dict[str, int]:
    """Sizes of the content that the cache holds, by name."""
    return {path.name: path.stat().st_size for path in (cache / "models--foundry--gemma" / "blobs").glob("*")}

"""Every request site can be made to fail, and the unmodified client sees what a real network would show it."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx
import pytest
from huggingface_hub import CommitOperationCopy, HfApi, snapshot_download
from huggingface_hub.errors import HfHubHTTPError

from tests.hub import SITES, UPLOAD_SITES, Hub
from tests.hub.conftest import REPO
from tests.hub.server import ROUTES

# The client uploads with an argument of httpx that is to go away.
pytestmark = pytest.mark.filterwarnings("ignore:Use 'content=:DeprecationWarning")

SIZE = 256_000  # of the large file that comes in parts
CHUNK = 4096
RETRIED = ("preupload", "lfs_batch", "lfs_put", "lfs_part", "lfs_complete", "lfs_verify")


def upload(api: HfApi, folder: Path) -> Any:
    return api.upload_folder(repo_id=REPO, folder_path=folder)


def download(api: HfApi, folder: Path) -> Path:
    return Path(snapshot_download(REPO, endpoint=api.endpoint, token=api.token, cache_dir=folder.parent / "cache"))


def copy(api: HfApi, _: Path) -> Any:
    return api.create_commit(REPO, [CommitOperationCopy("README.md", "copy.md")], commit_message="copy")


Act = Callable[[HfApi, Path], Any]
ACTS: dict[str, Act] = {
    "create_repo": lambda api, _: api.create_repo("foundry/other"),
    "branch": lambda api, _: api.create_branch(REPO, branch="new"),
    "tag": lambda api, _: api.create_tag(REPO, tag="new"),
    "refs": lambda api, _: api.list_repo_refs(REPO),
    "repo_info": lambda api, _: api.model_info(REPO),
    "paths_info": lambda api, _: api.get_paths_info(REPO, ["README.md"]),
    "commits": lambda api, _: api.list_repo_commits(REPO),
    "whoami": lambda api, _: api.whoami(),
    "auth_check": lambda api, _: api.auth_check(REPO),
    "resolve_get": copy,
    "delete_branch": lambda api, _: api.delete_branch(REPO, branch="old"),
    "delete_tag": lambda api, _: api.delete_tag(REPO, tag="old"),
    "delete_repo": lambda api, _: api.delete_repo(REPO),
}


@pytest.fixture
def ready(api: HfApi, hub: Hub) -> HfApi:
    """A repository with a card, a large file, a branch and a tag."""
    api.upload_file(repo_id=REPO, path_or_fileobj=b"# card", path_in_repo="README.md")
    api.upload_file(repo_id=REPO, path_or_fileobj=b"old" * 1000, path_in_repo="old.bin")
    api.create_branch(REPO, branch="old")
    api.create_tag(REPO, tag="old")
    hub.forget()
    return api


def test_sites_are_the_routes(hub: Hub) -> None:
    assert {site for site, *_ in ROUTES} == set(SITES)
    assert len(set(SITES)) == len(SITES)
    with pytest.raises(ValueError, match="site is 'nowhere'; accepted: create_repo"):
        hub.fail("nowhere")


@pytest.mark.parametrize("site", SITES)
def test_every_site_can_be_failed(ready: HfApi, hub: Hub, folder: Path, site: str) -> None:
    act: Act = ACTS.get(site, upload if site in UPLOAD_SITES else download)
    hub.fail(site, how=400)
    with suppress(HfHubHTTPError, RuntimeError, ValueError, OSError):
        act(ready, folder)
    assert hub.requests(site)[0].status == 400
    assert hub.watch.pending == {}


def test_faults_come_in_order_after_those_that_pass(ready: HfApi, hub: Hub) -> None:
    hub.fail("refs", how=500, skip=1, times=2)
    hub.fail("refs", how=404)
    for _ in range(5):
        with suppress(HfHubHTTPError):
            ready.list_repo_refs(REPO)
    assert [one.status for one in hub.requests("refs")] == [200, 500, 500, 404, 200]
    hub.fail("refs")
    assert hub.watch.pending == {"refs": 1}
    hub.forget()
    assert (hub.watch.pending, hub.log) == ({}, [])


@pytest.mark.parametrize(
    ("site", "how"),
    [*((site, "after") for site in RETRIED), *(("lfs_part", how) for how in (429, 503, "before", "request"))],
)
def test_client_goes_on_where_it_retries(
    ready: HfApi, hub: Hub, folder: Path, waits: list[float], site: str, how: Any
) -> None:
    hub.fail(site, how=how, wait=6)
    commit = upload(ready, folder)
    assert waits == [7.0 if isinstance(how, int) else 1]
    asked = hub.requests(site)
    assert asked[0].status == (how if isinstance(how, int) else 0)
    assert {one.status for one in asked[1:]} == {200}
    entry = hub.repository(REPO).tree(str(commit.oid))["model.safetensors"]
    assert hub.repository(REPO).objects.path(entry).read_bytes() == (folder / "model.safetensors").read_bytes()


@pytest.mark.parametrize(("how", "made"), [("before", False), ("request", False), ("after", True), ("answer", True)])
def test_commit_whose_answer_is_lost_is_there(ready: HfApi, hub: Hub, folder: Path, how: Any, made: bool) -> None:
    before = hub.repository(REPO).refs("branches")["main"]
    hub.fail("commit", how=how)
    with pytest.raises(httpx.TransportError):
        upload(ready, folder)
    assert (hub.repository(REPO).refs("branches")["main"] != before) is made
    assert hub.requests("commit")[0].status == (200 if how == "answer" else 0)


@pytest.mark.parametrize("at", [None, 0, 200_000])
def test_download_that_is_cut_goes_on_with_a_range(
    ready: HfApi, hub: Hub, folder: Path, waits: list[float], monkeypatch: pytest.MonkeyPatch, at: int | None
) -> None:
    # The client drops what it has of a chunk when the connection goes; as it comes, a chunk has 10 MiB.
    monkeypatch.setattr("huggingface_hub.constants.DOWNLOAD_CHUNK_SIZE", CHUNK)
    ready.upload_file(repo_id=REPO, path_or_fileobj=folder / "model.safetensors", path_in_repo="model.safetensors")
    ready.delete_file("old.bin", REPO)
    hub.fail("storage_get", how="answer", at=at)
    found = download(ready, folder) / "model.safetensors"
    assert found.read_bytes() == (folder / "model.safetensors").read_bytes()
    cut, rest = hub.requests("storage_get")
    assert cut.sent == (64 << 10 if at is None else at)
    kept = cut.sent // CHUNK * CHUNK
    assert (cut.range, rest.range) == (None, f"bytes={kept}-" if kept else None)
    assert kept + rest.sent == SIZE
    assert waits == [1]


def test_nothing_is_kept_of_an_upload_that_is_cut(ready: HfApi, hub: Hub, folder: Path, waits: list[float]) -> None:
    hub.fail("lfs_put", how="request", times=12)
    hub.fail("lfs_part", how="request", times=12)
    with pytest.raises(RuntimeError):
        upload(ready, folder)
    stored = [path.name for path in (hub.repository(REPO).objects.folder / "lfs").iterdir()]
    assert len(stored) == 1  # the old file
    assert len(waits) >= 5

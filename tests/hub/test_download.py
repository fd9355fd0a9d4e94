"""Downloads by the unmodified client, and the headers and ranges that a resuming one needs."""

from __future__ import annotations

from pathlib import Path

import pytest
from huggingface_hub import HfApi, get_hf_file_metadata, get_session, hf_hub_url, snapshot_download
from huggingface_hub.errors import EntryNotFoundError, RevisionNotFoundError
from huggingface_hub.hf_api import RepoFile

from tests.hub import Hub
from tests.hub.conftest import REPO

# The client uploads with an argument of httpx that is to go away.
pytestmark = pytest.mark.filterwarnings("ignore:Use 'content=:DeprecationWarning")


def contents(folder: Path) -> dict[str, bytes]:
    paths = (path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): path.read_bytes() for path in paths}


def test_snapshot_is_what_was_uploaded_and_no_token_reaches_the_storage(
    api: HfApi, hub: Hub, folder: Path, tmp_path: Path
) -> None:
    commit = api.upload_folder(repo_id=REPO, folder_path=folder)
    hub.forget()
    found = snapshot_download(REPO, endpoint=hub.endpoint, token=hub.token, cache_dir=tmp_path / "c")
    assert Path(found).name == commit.oid
    back = contents(Path(found))
    assert back.pop(".gitattributes")
    assert back == contents(folder)
    assert not any(one.authorized for one in hub.requests("storage_get"))
    assert all(one.authorized for one in hub.requests("resolve_head", "file_get", "tree"))
    assert sum(one.sent for one in hub.requests("storage_get")) == 256_000 + 30_000 + 300


def test_tree_comes_in_pages_with_the_commit_that_changed_each_file(api: HfApi, hub: Hub, folder: Path) -> None:
    first = api.upload_folder(repo_id=REPO, folder_path=folder)
    second = api.upload_file(repo_id=REPO, path_or_fileobj=b"[]", path_in_repo="config.json", commit_message="new")
    hub.forget()
    entries = list(api.list_repo_tree(REPO, recursive=True, expand=True))
    assert len(hub.requests("tree")) == 2
    assert [one.path for one in entries] == sorted([".gitattributes", "graphs", *contents(folder)])
    last = {one.path: one.last_commit.oid for one in entries if one.last_commit}
    assert (last["config.json"], last["README.md"]) == (second.oid, first.oid)
    assert {one.path for one in api.list_repo_tree(REPO, "graphs")} == {"graphs/a name.exe", "graphs/decode.bin"}
    assert "graphs/decode.bin" not in {one.path for one in api.list_repo_tree(REPO)}
    asked = api.get_paths_info(REPO, ["config.json", "graphs", "nowhere"], expand=True)
    assert [(one.path, isinstance(one, RepoFile)) for one in asked] == [("config.json", True), ("graphs", False)]
    with pytest.raises(EntryNotFoundError):
        list(api.list_repo_tree(REPO, "nowhere"))


def test_head_tells_commit_etag_and_size_and_get_gives_a_range(api: HfApi, hub: Hub, folder: Path) -> None:
    commit = api.upload_folder(repo_id=REPO, folder_path=folder)
    tree = hub.repository(REPO).tree(str(commit.oid))
    for name in ("model.safetensors", "README.md"):
        url = hf_hub_url(REPO, name, endpoint=hub.endpoint)
        found = get_hf_file_metadata(url, token=hub.token)
        entry, whole = tree[name], (folder / name).read_bytes()
        assert (found.commit_hash, found.etag, found.size) == (commit.oid, entry.lfs or entry.oid, len(whole))
        answer = get_session().get(found.location, headers={"Range": "bytes=20-"})
        assert (answer.status_code, answer.content) == (206, whole[20:])
        assert answer.headers["Content-Range"] == f"bytes 20-{len(whole) - 1}/{len(whole)}"
        assert get_session().get(found.location, headers={"Range": f"bytes={len(whole)}-"}).status_code == 416
    # The storage host is another one, and its URLs cannot be made up.
    stored = get_hf_file_metadata(hf_hub_url(REPO, "model.safetensors", endpoint=hub.endpoint)).location
    assert stored.startswith(hub.storage)
    assert get_session().get(stored.replace("X-Signature=", "X-Signature=0")).status_code == 403


def test_revisions_and_files_that_are_not_there(api: HfApi, hub: Hub, tmp_path: Path) -> None:
    with pytest.raises(RevisionNotFoundError):
        api.model_info(REPO, revision="0" * 40)
    with pytest.raises(RevisionNotFoundError):
        api.hf_hub_download(REPO, "README.md", revision="v1", cache_dir=tmp_path)
    with pytest.raises(EntryNotFoundError):
        api.hf_hub_download(REPO, "README.md", cache_dir=tmp_path)


def test_state_outlives_the_server(api: HfApi, hub: Hub, folder: Path, tmp_path: Path) -> None:
    commit = api.upload_folder(repo_id=REPO, folder_path=folder)
    with Hub(hub.root) as again:
        found = HfApi(endpoint=again.endpoint).snapshot_download(REPO, revision=commit.oid, cache_dir=tmp_path / "c")
        assert contents(folder).items() <= contents(Path(found)).items()

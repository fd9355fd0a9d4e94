"""Uploads by the unmodified client: what arrives, what is not sent twice, and commits on a known parent."""

from __future__ import annotations

import json
import subprocess
from concurrent.futures import ThreadPoolExecutor
from hashlib import sha256
from pathlib import Path
from typing import Any

import httpx
import pytest
from huggingface_hub import CommitOperationAdd, CommitOperationCopy, CommitOperationDelete, HfApi, get_session
from huggingface_hub.errors import BadRequestError, HfHubHTTPError
from huggingface_hub.lfs import UploadInfo, post_lfs_batch_info

from tests.hub import Hub
from tests.hub.conftest import REPO

# The client uploads with an argument of httpx that is to go away.
pytestmark = pytest.mark.filterwarnings("ignore:Use 'content=:DeprecationWarning")

LARGE = {"model.safetensors", "graphs/decode.bin", "graphs/a name.exe"}


def commit_lines(hub: Hub, *lines: tuple[str, dict[str, Any]]) -> httpx.Response:
    """The answer to a commit of these lines."""
    content = "".join(json.dumps({"key": key, "value": value}) + "\n" for key, value in lines)
    url, headers = f"{hub.endpoint}/api/models/{REPO}/commit/main", {"Authorization": f"Bearer {hub.token}"}
    return get_session().post(url, content=content, headers=headers)


def test_folder_becomes_one_commit_with_the_ids_that_git_and_sha256_give(api: HfApi, hub: Hub, folder: Path) -> None:
    commit = api.upload_folder(repo_id=REPO, folder_path=folder, commit_message="first")
    info = api.model_info(REPO, files_metadata=True)
    assert (info.sha, info.card_data and info.card_data.license, info.gated) == (commit.oid, "apache-2.0", False)
    found = {one.rfilename: one for one in info.siblings or ()}
    paths = {str(path.relative_to(folder)): path for path in folder.rglob("*") if path.is_file()}
    assert found.keys() == paths.keys() | {".gitattributes"}
    assert {name for name, one in found.items() if one.lfs} == LARGE
    for name, path in paths.items():
        assert found[name].size == path.stat().st_size
        if lfs := found[name].lfs:
            assert lfs.sha256 == sha256(path.read_bytes()).hexdigest()
        else:
            git = subprocess.run(["git", "hash-object", path], capture_output=True, text=True, check=True)
            assert found[name].blob_id == git.stdout.strip()
    assert [one.title for one in api.list_repo_commits(REPO)] == ["first", "initial commit"]
    assert sorted(one.received for one in hub.requests("lfs_part")) == [56_000, 100_000, 100_000]
    assert not hub.requests("unknown")


def test_what_is_there_is_not_sent_again(api: HfApi, hub: Hub, folder: Path) -> None:
    api.upload_folder(repo_id=REPO, folder_path=folder)
    hub.forget()
    api.upload_folder(repo_id=REPO, folder_path=folder)
    assert not hub.requests("lfs_put", "lfs_part", "commit")
    # Under another name: a commit, and no content.
    api.upload_file(repo_id=REPO, path_or_fileobj=folder / "model.safetensors", path_in_repo="again.safetensors")
    assert len(hub.requests("commit")) == 1
    assert not hub.requests("lfs_put", "lfs_part")


def test_commit_on_a_parent_that_is_no_longer_the_head_is_refused(api: HfApi, hub: Hub) -> None:
    def write(text: str, parent: str) -> str:
        operation = CommitOperationAdd("a.txt", text.encode())
        made = api.create_commit(REPO, [operation], commit_message=text, parent_commit=parent)
        return str(made.oid)

    first = str(api.model_info(REPO).sha)
    second = write("two", first)
    with pytest.raises(HfHubHTTPError, match="A commit has happened since") as refused:
        write("three", first)
    assert refused.value.response.status_code == 412
    assert api.model_info(REPO).sha == second
    third = write("three", second)
    assert hub.repository(REPO).history(third) == [third, second, first]


def test_of_commits_at_the_same_time_on_one_parent_one_wins(api: HfApi, hub: Hub) -> None:
    parent = str(api.model_info(REPO).sha)

    def write(number: int) -> int:
        return commit_lines(hub, ("header", {"summary": str(number), "parentCommit": parent})).status_code

    with ThreadPoolExecutor(8) as threads:
        found = sorted(threads.map(write, range(8)))
    assert found == [200] + [412] * 7
    assert len(hub.repository(REPO).history(str(api.model_info(REPO).sha))) == 2


def test_old_commits_stay_and_files_can_be_copied_and_deleted(api: HfApi, hub: Hub, folder: Path) -> None:
    old = api.upload_folder(repo_id=REPO, folder_path=folder)
    operations: list[CommitOperationAdd | CommitOperationCopy | CommitOperationDelete] = [
        CommitOperationCopy("model.safetensors", "copy.safetensors"),
        CommitOperationCopy("config.json", "copy.json"),
        CommitOperationDelete("graphs/"),
        CommitOperationDelete("empty.txt"),
    ]
    new = api.create_commit(REPO, operations, commit_message="changed")
    files = set(api.list_repo_files(REPO))
    gone = {"graphs/decode.bin", "graphs/a name.exe", "empty.txt"}
    assert files == set(api.list_repo_files(REPO, revision=old.oid)) - gone | {"copy.safetensors", "copy.json"}
    tree = hub.repository(REPO).tree(str(new.oid))
    assert (tree["copy.safetensors"], tree["copy.json"]) == (tree["model.safetensors"], tree["config.json"])
    with pytest.raises(HfHubHTTPError, match="A file with this name doesn't exist"):
        api.delete_file("nowhere.txt", REPO)


def test_branches_and_tags_are_made_once(api: HfApi, hub: Hub, folder: Path) -> None:
    main = str(api.model_info(REPO).sha)
    api.create_branch(REPO, branch="staging/1.0")
    staged = api.upload_folder(repo_id=REPO, folder_path=folder, revision="staging/1.0")
    api.create_tag(REPO, tag="1.0", revision="staging/1.0")
    refs = api.list_repo_refs(REPO)
    assert {one.name: one.target_commit for one in refs.branches} == {"main": main, "staging/1.0": staged.oid}
    assert {one.name: (one.ref, one.target_commit) for one in refs.tags} == {"1.0": ("refs/tags/1.0", staged.oid)}
    for again in (
        lambda: api.create_branch(REPO, branch="staging/1.0"),
        lambda: api.create_tag(REPO, tag="1.0"),
        lambda: api.create_repo(REPO),
    ):
        with pytest.raises(HfHubHTTPError) as refused:
            again()
        assert refused.value.response.status_code == 409
    assert api.create_repo(REPO, exist_ok=True).repo_id == REPO
    assert hub.repository(REPO).refs("tags") == {"1.0": staged.oid}
    api.delete_tag(REPO, tag="1.0")
    api.delete_branch(REPO, branch="staging/1.0")
    assert hub.repository(REPO).refs("tags") == {}
    with pytest.raises(HfHubHTTPError, match="Invalid rev id"):
        api.upload_file(repo_id=REPO, path_or_fileobj=b"x", path_in_repo="x", revision="staging/1.0")
    api.delete_repo(REPO)
    assert not api.repo_exists(REPO)


def test_only_the_announced_content_is_taken(api: HfApi, hub: Hub) -> None:
    right = b"right" * 100
    info = UploadInfo.from_bytes(right)
    actions, _, _ = post_lfs_batch_info([info], hub.token, "model", REPO, endpoint=hub.endpoint)
    url = actions[0]["actions"]["upload"]["href"]
    assert get_session().put(url, content=b"wrong" * 100).status_code == 400
    header = ("header", {"summary": "x"})
    line = ("lfsFile", {"path": "a", "algo": "sha256", "oid": info.sha256.hex(), "size": 500})
    refused = commit_lines(hub, header, line)
    assert (refused.status_code, "does not exist" in refused.text) == (400, True)
    assert get_session().put(url, content=right).status_code == 200
    assert commit_lines(hub, header, line).status_code == 200


@pytest.mark.parametrize("path", ["../up", ".git/config", "a//b"])
def test_paths_out_of_the_repository_are_refused(api: HfApi, hub: Hub, path: str) -> None:
    lines = ("header", {"summary": "x"}), ("file", {"path": path, "content": ""})
    assert commit_lines(hub, *lines).status_code == 400


@pytest.mark.parametrize("committed", [True, False])
def test_names_in_gitignore_are_left_out_as_the_client_does(api: HfApi, folder: Path, committed: bool) -> None:
    ignore = b"# mine\n*.exe\ngraphs/decode.bin\n"
    if committed:
        api.upload_file(repo_id=REPO, path_or_fileobj=ignore, path_in_repo=".gitignore")
    else:
        (folder / ".gitignore").write_bytes(ignore)
    api.upload_folder(repo_id=REPO, folder_path=folder)
    assert not [path for path in api.list_repo_files(REPO) if path.startswith("graphs/")]
    assert "model.safetensors" in api.list_repo_files(REPO)


def test_card_that_is_no_yaml_is_refused(api: HfApi) -> None:
    card = b"---\nlicense: [\n---\n"
    with pytest.raises((ValueError, BadRequestError), match=r"Invalid metadata in README\.md"):
        api.upload_file(repo_id=REPO, path_or_fileobj=card, path_in_repo="README.md")

"""A branch holds exactly the folder after one commit, whatever it held before, and nothing is sent twice."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from huggingface_hub import CommitOperationAdd, HfApi
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ledger.errors import BadInput, GateFailed
from publish.hub.trees import read_folder
from publish.hub.upload import upload
from tests.publish.hub.conftest import CARD, OLDER, PART, PARTS, RELEASE, REPO, Content, Place

pytestmark = pytest.mark.filterwarnings("ignore:Use 'content=:DeprecationWarning")

SENDING = ("preupload", "lfs_batch", "lfs_put", "lfs_part", "commit")
NAMES = st.sampled_from(["a", "b/c", "b/d.bin", "ä/ß €.txt", "日本/語", "%2F+&?.txt", " lead", "z.safetensors"])
CONTENTS = st.dictionaries(
    NAMES, st.sampled_from([b"", b"text", b"\0binary", b"x" * 300, b"\0" * PART * 2]), min_size=1
)


def test_one_commit_replaces_what_was_there(place: Place) -> None:
    first = place.upload(OLDER)
    done = place.upload()
    found = place.hub.repository(REPO)
    assert place.content(done.oid) == RELEASE
    assert found.commit(done.oid)["parent"] == first.oid and found.commit(done.oid)["title"] == "A release"
    assert ".gitattributes" in found.tree(done.oid)
    assert place.content(place.head("main")) == {}
    changed = {path: data for path, data in RELEASE.items() if OLDER.get(path) != data}
    assert (done.files_sent, done.bytes_sent) == (len(changed), sum(map(len, changed.values())))
    assert (done.skipped, done.unchanged) == (1, False)


def test_an_unchanged_folder_makes_no_commit_and_sends_nothing(place: Place) -> None:
    done = place.upload()
    place.hub.forget()
    again = place.upload()
    assert (again.oid, again.files_sent, again.bytes_sent, again.skipped) == (done.oid, 0, 0, len(RELEASE))
    assert again.unchanged and set(place.sites()) == {"refs", "tree"}


def test_what_lies_on_another_branch_is_not_sent_again(place: Place) -> None:
    place.upload()
    place.hub.forget()
    done = place.upload(RELEASE, "other")
    assert place.content(done.oid) == RELEASE
    assert place.hub.requests("lfs_put", "lfs_part") == []
    assert done.skipped == 2 and done.bytes_sent < 1000


def test_large_files_come_in_parts_and_one_content_once(place: Place) -> None:
    data = os.urandom(PART * 3 - 1)
    done = place.upload({"one.bin": data, "two.bin": data, "three.bin": data[:PART]})
    assert place.content(done.oid)["two.bin"] == data
    assert [one.received for one in place.hub.requests("lfs_part")] == [PART, PART, PART - 1]
    assert [one.received for one in place.hub.requests("lfs_put")] == [PART]
    assert (done.files_sent, done.bytes_sent) == (2, PART * 4 - 1)


def test_a_token_goes_to_the_hub_and_not_to_the_storage(place: Place) -> None:
    place.upload()
    assert all(one.authorized for one in place.hub.log if one.site not in {"lfs_put", "lfs_part", "lfs_complete"})
    assert not any(one.authorized for one in place.hub.requests("lfs_put", "lfs_part"))


@settings(max_examples=12, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(before=CONTENTS, after=CONTENTS)
def test_any_folder_replaces_any_other(place: Place, before: Content, after: Content) -> None:
    first, second = place.upload(before), place.upload(after)
    assert place.content(first.oid) == before and place.content(second.oid) == after
    assert second.unchanged == (before == after)


def test_a_file_becomes_a_folder_and_back(place: Place) -> None:
    for content in ({"a": b"1"}, {"a/b": b"2"}, {"a": b"3"}):
        assert place.content(place.upload(content).oid) == content


def test_ignored_names_are_sent_all_the_same(place: Place) -> None:
    place.upload({".gitignore": b"*.txt\n*.bin\n"})
    content = {".gitignore": b"*.txt\n*.bin\n", "kept.txt": b"kept", "kept.bin": b"\0kept", "README.md": CARD}
    assert place.content(place.upload(content).oid) == content


@pytest.mark.parametrize("branch", ["main", "refs/heads/main", "refs/pr/1"])
def test_main_is_not_written(place: Place, branch: str) -> None:
    with pytest.raises(
        BadInput, match=f"^--branch {branch}: main is for promotion alone; accepted: the name of another"
    ):
        place.upload(branch=branch)
    assert place.hub.log == []


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        (".gitattributes", ".gitattributes is a name that the Hub keeps for itself"),
        ("a/.cache/x", ".cache is a name that the Hub keeps for itself"),
    ],
)
def test_a_name_of_the_hub_is_refused(place: Place, name: str, sentence: str) -> None:
    with pytest.raises(BadInput, match=sentence):
        place.upload({name: b""})


def test_only_files_are_taken(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="is no folder"):
        read_folder(tmp_path / "missing")
    with pytest.raises(BadInput, match="holds no file"):
        read_folder(tmp_path)
    (tmp_path / "link").symlink_to("/etc/passwd")
    with pytest.raises(BadInput, match="link is a link or no regular file; accepted: files and folders"):
        read_folder(tmp_path)
    (tmp_path / "link").unlink()
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(BadInput, match="pipe is a link or no regular file"):
        read_folder(tmp_path)
    (tmp_path / "pipe").unlink()
    (Path(os.fsdecode(os.fsencode(tmp_path) + b"/\xff"))).touch()
    with pytest.raises(BadInput, match=r"is no name in UTF-8; accepted: names in UTF-8"):
        read_folder(tmp_path)


def test_each_file_is_read_once_for_its_digests(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    def again(*_: object) -> bytes:
        raise AssertionError("hashed a second time")

    monkeypatch.setattr("huggingface_hub.lfs.sha_fileobj", again)
    assert place.content(place.upload().oid) == RELEASE


def test_a_folder_that_changes_on_the_way_is_found_out(place: Place) -> None:
    folder = place.lay(RELEASE)

    def change(site: str) -> None:
        if site == "preupload":
            (folder / "serve" / "engine.py").write_text("print('other')\n")

    place.on_arrival(lambda one: change(one.site))
    with pytest.raises(
        GateFailed, match=r"does not hold what .* held when it was read; accepted: a folder that nobody"
    ):
        upload(
            folder, REPO, branch="staging", message="m", token=place.hub.token, endpoint=place.hub.endpoint
        )  # fmt: skip


def test_what_the_hub_calls_the_files_is_what_git_and_sha256sum_call_them(place: Place) -> None:
    """The digests that are compared, against those of the library's own upload of the same folder."""
    folder = place.lay(RELEASE)
    api = HfApi(endpoint=place.hub.endpoint, token=place.hub.token)
    additions = [CommitOperationAdd(path, folder / path) for path in RELEASE]
    api.create_branch(REPO, branch="staging")
    api.create_commit(REPO, additions, commit_message="by the library", revision="staging")
    place.hub.forget()
    assert place.upload().unchanged
    assert not place.hub.requests(*SENDING)
    assert len(PARTS) == 1

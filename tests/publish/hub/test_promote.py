"""main becomes the staged tree by one commit, entry by entry, and gets a tag; twice is as once."""

from __future__ import annotations

import pytest

from ledger.errors import BadInput, GateFailed
from tests.hub import Exchange
from tests.publish.hub.conftest import OLDER, RELEASE, REPO, Place

pytestmark = pytest.mark.filterwarnings("ignore:Use 'content=:DeprecationWarning")


def test_the_tree_arrives_and_nothing_large_moves(place: Place) -> None:
    older = place.promote(place.upload(OLDER).oid, "v0")
    staged = place.upload()
    place.hub.forget()
    done = place.promote(staged.oid)
    found = place.hub.repository(REPO)
    assert found.tree(done.oid) == found.tree(staged.oid)
    assert found.commit(done.oid)["parent"] == older.oid and found.commit(done.oid)["title"] == "Release v1"
    assert place.tags == {"v0": older.oid, "v1": done.oid}
    assert place.head("main") == done.oid and place.head() == staged.oid
    assert not place.hub.requests("lfs_batch", "lfs_put", "lfs_part", "preupload", "storage_get")
    small = [path for path in RELEASE if path not in {"weights/one.bin", "weights/parts.safetensors"}]
    sent = [path for path in small if path != "serve/engine.py"]
    assert (done.files_sent, done.bytes_sent) == (len(sent), sum(len(RELEASE[path]) for path in sent))
    assert done.skipped == len(RELEASE) - len(sent)


def test_a_second_time_changes_nothing(place: Place) -> None:
    staged = place.upload()
    done = place.promote(staged.oid)
    place.hub.forget()
    again = place.promote(staged.oid)
    assert (again.oid, again.unchanged, again.files_sent, again.bytes_sent) == (done.oid, True, 0, 0)
    assert set(place.sites()) == {"refs", "tree"}


def test_a_tag_never_moves(place: Place) -> None:
    first = place.promote(place.upload(OLDER).oid)
    staged = place.upload()
    with pytest.raises(BadInput, match=f"tag v1 is on commit {first.oid}, and tags never move; accepted: a new tag"):
        place.promote(staged.oid)
    assert place.head("main") == first.oid and place.tags == {"v1": first.oid}
    second = place.promote(staged.oid, "v2")
    # Nor does an old release come back under its old tag.
    with pytest.raises(BadInput, match="tag v1 is on commit"):
        place.promote(place.hub.repository(REPO).history(staged.oid)[1])
    assert place.tags == {"v1": first.oid, "v2": second.oid} and place.head("main") == second.oid


def test_one_tree_may_have_two_tags(place: Place) -> None:
    staged = place.upload()
    done = place.promote(staged.oid, "v1")
    again = place.promote(staged.oid, "v1.0")
    assert again.unchanged and place.tags == {"v1": done.oid, "v1.0": done.oid}


def test_a_commit_that_holds_something_else_gets_no_tag(place: Place) -> None:
    """The stand-in's disk has another content under the staged file's name, as a fault between Hub and here would."""
    staged = place.upload()
    found = place.hub.repository(REPO)
    entry = found.tree(staged.oid)["serve/engine.py"]
    found.objects.path(entry).write_bytes(b"print('evil!')\n")
    with pytest.raises(GateFailed, match=f"on branch main is not the tree of {staged.oid}; .* it is not tagged"):
        place.promote(staged.oid)
    assert place.tags == {}


def test_a_main_that_moved_is_compared_again(place: Place) -> None:
    staged = place.upload()
    others: list[str] = []

    def other(one: Exchange) -> None:
        if one.site == "commit" and not others:
            others.append(place.commit_elsewhere(OLDER, "main"))

    place.on_arrival(other)
    done = place.promote(staged.oid)
    found = place.hub.repository(REPO)
    assert found.tree(done.oid) == found.tree(staged.oid)
    assert found.history(done.oid)[1:2] == others


@pytest.mark.parametrize("commit", ["staging", "main", "a" * 39, "A" * 40, ""])
def test_only_a_full_commit_id_is_promoted(place: Place, commit: str) -> None:
    with pytest.raises(BadInput, match="accepted: a full commit id"):
        place.promote(commit)
    assert place.hub.log == []


def test_a_commit_or_branch_that_is_not_there(place: Place) -> None:
    with pytest.raises(BadInput, match=r"the tree of 0{40}: refused with 404 .*; accepted: a branch, tag or commit"):
        place.promote("0" * 40)
    with pytest.raises(BadInput, match=f"{REPO} has no branch release; accepted: main, staging"):
        place.promote(place.upload().oid, to="release")

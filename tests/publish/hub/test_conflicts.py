"""Others publish at the same time: one wins, the other goes on from there, finds it done, or gives up in the end."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from ledger.errors import BadInput, GateFailed
from publish.hub.client import WAITS
from publish.hub.upload import upload
from tests.hub import Exchange
from tests.publish.hub.conftest import CARD, OLDER, RELEASE, REPO, Place

pytestmark = pytest.mark.filterwarnings("ignore:Use 'content=:DeprecationWarning")

OTHER = {"README.md": CARD + b"other\n", "other.txt": b"other"}
SMALL = {"README.md": CARD, "one.txt": b"one"}


def test_a_branch_that_moved_is_compared_again(place: Place) -> None:
    first = place.upload(OLDER)
    others: list[str] = []

    def other(one: Exchange) -> None:
        if one.site == "commit" and not others:
            others.append(place.commit_elsewhere(OTHER))

    place.on_arrival(other)
    done = place.upload()
    assert place.content(done.oid) == RELEASE
    assert place.hub.repository(REPO).history(done.oid)[:3] == [done.oid, *others, first.oid]
    assert [one.status for one in place.hub.requests("commit")] == [412, 200]
    # The large files were there by then.
    assert len(place.hub.requests("lfs_put")) == 1


def test_another_who_made_the_same_commit_has_done_it(place: Place) -> None:
    place.upload(OLDER)
    others: list[str] = []

    def other(one: Exchange) -> None:
        if one.site == "commit":
            others.append(place.commit_elsewhere(SMALL))

    place.on_arrival(other)
    done = place.upload(SMALL)
    assert [done.oid] == others and not done.unchanged
    assert [one.status for one in place.hub.requests("commit")] == [412]


def test_another_who_wrote_the_same_and_more_in_between(place: Place) -> None:
    place.upload(OLDER)
    others: list[str] = []

    def other(one: Exchange) -> None:
        if one.site == "preupload" and not others:
            others.append(place.commit_elsewhere(OLDER | SMALL | {"more.txt": b"more"}))

    place.on_arrival(other)
    done = place.upload(OLDER | SMALL)
    assert place.content(done.oid) == OLDER | SMALL and place.hub.repository(REPO).history(done.oid)[1:2] == others


@pytest.mark.parametrize("branch", ["staging", "main"])
def test_a_branch_that_never_rests_is_given_up(place: Place, branch: str) -> None:
    staged = place.upload()

    def other(one: Exchange) -> None:
        if one.site == "commit":
            place.commit_elsewhere(OTHER | {"number": str(len(place.hub.log)).encode()}, branch)

    place.on_arrival(other)
    with pytest.raises(GateFailed, match=f"branch {branch} moved at every try; accepted: one publisher at a time"):
        place.promote(staged.oid) if branch == "main" else place.upload(SMALL)
    assert [one.status for one in place.hub.requests("commit")] == [412] * (len(WAITS) + 1)
    assert place.tags == {}


def test_a_commit_in_progress_is_waited_for(place: Place) -> None:
    place.upload(OLDER)
    place.seconds.clear()
    place.hub.fail("commit", how=409, times=2)
    assert place.content(place.upload().oid) == RELEASE
    assert place.seconds == [1, 2]


def test_a_given_parent_holds(place: Place) -> None:
    first = place.upload(OLDER)
    second = place.upload(OTHER, parent=first.oid)
    with pytest.raises(GateFailed, match=f"branch staging is at {second.oid}; accepted: {first.oid}"):
        place.upload(parent=first.oid)
    assert place.upload(OTHER, parent=first.oid).unchanged
    assert place.head() == second.oid


def test_a_branch_that_another_makes_is_taken(place: Place) -> None:
    def other(one: Exchange) -> None:
        if one.site == "branch":
            place.hub.repository(REPO).point("branches", "staging", place.head("main"))

    place.on_arrival(other)
    assert place.content(place.upload().oid) == RELEASE
    assert [one.status for one in place.hub.requests("branch")] == [409]


@pytest.mark.parametrize("same", [True, False])
def test_publishers_at_the_same_time(place: Place, same: bool) -> None:
    releases = [RELEASE | ({} if same else {"who.txt": str(number).encode()}) for number in range(4)]
    place.upload(OLDER)
    folders = [place.lay(release, f"release-of-{number}") for number, release in enumerate(releases)]

    def publish(number: int) -> str:
        token, endpoint = place.hub.token, place.hub.endpoint
        return upload(folders[number], REPO, branch="staging", message="m", token=token, endpoint=endpoint).oid

    with ThreadPoolExecutor(4) as pool:
        made = list(pool.map(publish, range(4)))
    history = place.hub.repository(REPO).history(place.head())
    # Each ends on a commit that holds its folder, and every commit of the branch is somebody's whole folder.
    assert [place.content(oid) for oid in made] == releases
    assert set(made) == set(history[: len(set(made))]) and len(set(made)) == (1 if same else 4)
    assert len(history) == len(set(made)) + 2


def test_two_who_promote_at_once(place: Place) -> None:
    staged = place.upload()
    with ThreadPoolExecutor(2) as pool:
        made = list(pool.map(lambda _: place.promote(staged.oid).oid, range(2)))
    assert made[0] == made[1] == place.tags["v1"] == place.head("main")


def test_a_tag_that_another_makes_elsewhere_is_refused(place: Place) -> None:
    staged = place.upload()

    def other(one: Exchange) -> None:
        if one.site == "tag":
            place.hub.repository(REPO).point("tags", "v1", staged.oid)

    place.on_arrival(other)
    with pytest.raises(BadInput, match=f"tag v1 is on commit {staged.oid}, and tags never move"):
        place.promote(staged.oid)
    assert place.tags == {"v1": staged.oid}

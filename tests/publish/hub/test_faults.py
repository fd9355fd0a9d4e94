"""A fault at every request site: what passes is survived, what stays stops at once, and nothing is ever half there."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest

from ledger.errors import BadInput, FoundryError, GateFailed
from publish.hub.client import WAITS
from tests.hub import Exchange
from tests.hub.faults import Cut
from tests.publish.hub.conftest import LARGE, OLDER, PARTS, RELEASE, REPO, SMALL, Place, back

# The library uploads with an argument of httpx that is to go away.
pytestmark = pytest.mark.filterwarnings("ignore:Use 'content=:DeprecationWarning")

UPLOAD = (
    "refs", "tree", "preupload", "lfs_batch", "lfs_put", "lfs_part", "lfs_complete", "lfs_verify", "validate_yaml",
    "commit",
)  # fmt: skip
PROMOTE = ("refs", "tree", "paths_info", "resolve_get", "file_get", "commit", "tag")
DOWNLOAD = ("refs", "tree", "resolve_get", "storage_get", "file_get")
# "after" is the worst way to be cut off: the work is done, and nobody says so.
PASSING = (500, 429, "after", *(pytest.param(how, marks=pytest.mark.soak) for how in ("before", "request", "answer")))
PERMANENT = (400, 401, 403, 404)
Act = Callable[[], object]


class Seen:
    """The commits that each branch and tag was at whenever a request arrived, in order."""

    def __init__(self, place: Place) -> None:
        self.found = place.hub.repository(REPO)
        self.commits: dict[str, list[str]] = {}
        place.on_arrival(self.look)

    def look(self, _: Exchange) -> None:
        for name, commit in (self.found.refs("branches") | self.found.refs("tags")).items():
            seen = self.commits.setdefault(name, [])
            if seen[-1:] != [commit]:
                seen.append(commit)


@pytest.mark.parametrize("how", PASSING)
def test_an_upload_survives_a_fault_at_any_site(place: Place, how: int | Cut) -> None:
    place.upload(OLDER)
    for site in UPLOAD:
        before = place.head()
        # A new card and new large files each time: what the Hub has is not sent again.
        release = RELEASE | {path: RELEASE[path] + site.encode() for path in ("README.md", "weights/one.bin", *PARTS)}
        seen = Seen(place)
        place.hub.fail(site, how=how)
        done = place.upload(release)
        assert not place.hub.watch.pending, site
        assert place.content(done.oid) == release and place.head() == done.oid, site
        # The last request came after the commit.
        assert seen.commits["staging"] == [before, done.oid], site


@pytest.mark.parametrize("how", PASSING)
def test_a_promotion_survives_a_fault_at_any_site(place: Place, how: int | Cut) -> None:
    for site in PROMOTE:
        release = RELEASE | {path: RELEASE[path] + site.encode() for path in ("README.md", "weights/one.bin")}
        staged, before = place.upload(release), place.head("main")
        seen = Seen(place)
        place.hub.fail(site, how=how)
        done = place.promote(staged.oid, tag=f"v-{site}")
        assert not place.hub.watch.pending, site
        assert place.content(done.oid) == release and place.tags[f"v-{site}"] == done.oid == place.head("main"), site
        assert seen.commits["main"] == [before, done.oid], site


@pytest.mark.parametrize("how", PASSING)
def test_a_download_survives_a_fault_at_any_site(place: Place, how: int | Cut) -> None:
    done = place.upload()
    for site in DOWNLOAD:
        place.hub.fail(site, how=how)
        assert place.download("staging", site).commit == done.oid
        assert not place.hub.watch.pending, site
        assert back(place, site) == RELEASE, site


@pytest.mark.parametrize("status", PERMANENT)
def test_a_permanent_refusal_of_an_upload_is_asked_once(place: Place, status: int) -> None:
    place.upload(OLDER)
    before = place.head()
    for site in (*UPLOAD, "branch"):
        # One large file a site, so that one request to it is all there can be.
        large = PARTS if site in {"lfs_part", "lfs_complete"} else {"weights/one.bin": LARGE["weights/one.bin"]}
        act = partial(place.upload, SMALL | large, "new" if site == "branch" else "staging")
        _asked_once(place, site, status, act)
        assert place.head() == before, site
    assert set(place.hub.repository(REPO).refs("branches")) == {"main", "staging"}


@pytest.mark.parametrize("status", PERMANENT)
def test_a_permanent_refusal_of_a_promotion_is_asked_once(place: Place, status: int) -> None:
    staged, before = place.upload(), place.head("main")
    for site in PROMOTE[:-1]:
        _asked_once(place, site, status, partial(place.promote, staged.oid))
        assert place.head("main") == before and not place.tags, site
    _asked_once(place, "tag", status, partial(place.promote, staged.oid))
    assert place.content(place.head("main")) == RELEASE and not place.tags
    assert place.promote(staged.oid).unchanged and place.tags == {"v1": place.head("main")}


@pytest.mark.parametrize("status", PERMANENT)
def test_a_permanent_refusal_of_a_download_is_asked_once(place: Place, status: int) -> None:
    place.upload({"one.bin": b"\0" * 1000}, "large")
    place.upload({"one.txt": b"small"}, "small")
    for site in DOWNLOAD:
        act = partial(place.download, "large" if site == "storage_get" else "small")
        _asked_once(place, site, status, act)
        assert not (place.folder / "back").exists(), site


def _asked_once(place: Place, site: str, status: int, act: Act) -> None:
    place.hub.forget()
    place.seconds.clear()
    place.hub.fail(site, how=status, times=99)
    with pytest.raises(FoundryError) as caught:
        act()
    place.hub.watch.clear()
    sentence = str(caught.value)
    assert isinstance(caught.value, BadInput) and REPO in sentence and "accepted: " in sentence, sentence
    assert f"refused with {status} (injected {status})" in sentence and "\n" not in sentence, sentence
    assert place.hub.token not in sentence and "Signature" not in sentence, sentence
    assert place.sites().count(site) == 1, place.sites()
    assert not place.seconds


@pytest.mark.parametrize("how", [503, "before"])
def test_a_fault_that_stays_ends_after_as_many_tries_everywhere(place: Place, how: int | Cut) -> None:
    staged, wrong = place.upload(), []
    place.upload(OLDER)
    promotion = partial(place.promote, staged.oid)
    upload = partial(place.upload, SMALL | {"one.bin": b"\0new"})
    cases: list[tuple[str, Act]] = [
        *((site, upload) for site in UPLOAD if site not in {"lfs_part", "lfs_complete"}),
        *((site, promotion) for site in PROMOTE[2:]),
    ]
    for site, act in cases:
        place.hub.forget()
        place.hub.fail(site, how=how, times=99)
        with pytest.raises(GateFailed) as caught:
            act()
        place.hub.watch.clear()
        assert "accepted: " in str(caught.value) and "Signature" not in str(caught.value)
        wrong += [(site, tries)] if (tries := place.sites().count(site)) != len(WAITS) + 1 else []
    assert not wrong

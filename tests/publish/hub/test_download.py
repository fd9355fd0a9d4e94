"""A folder appears whole, exact and checked, or not at all; what came before a kill is not asked for again."""

from __future__ import annotations

import fcntl
import os

import pytest

from ledger.errors import BadInput, GateFailed
from publish.hub.trees import check_remote
from tests.publish.hub.conftest import RELEASE, REPO, Place, back

pytestmark = pytest.mark.filterwarnings("ignore:Use 'content=:DeprecationWarning")


@pytest.fixture
def pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """The library writes what comes in pieces of 10 MB; here of 16 KB, as a cut loses the piece that it falls in."""
    monkeypatch.setattr("huggingface_hub.constants.DOWNLOAD_CHUNK_SIZE", 1 << 14)


def test_every_name_of_a_revision_brings_the_same(place: Place) -> None:
    staged = place.upload()
    released = place.promote(staged.oid)
    for number, revision in enumerate(["main", "v1", "staging", released.oid]):
        done = place.download(revision, f"back-{number}")
        assert back(place, f"back-{number}") == RELEASE
        assert done.commit == (staged.oid if revision == "staging" else released.oid)
        assert (done.files, done.bytes) == (len(RELEASE), sum(map(len, RELEASE.values())))
        assert done.bytes_received == done.bytes
    assert not list(place.folder.glob(".*"))


def test_a_folder_that_holds_the_revision_is_left(place: Place) -> None:
    place.upload()
    place.download("staging")
    place.hub.forget()
    assert place.download("staging").bytes_received == 0
    assert set(place.sites()) == {"refs", "tree"}


def test_a_folder_that_holds_something_else_is_refused(place: Place) -> None:
    place.upload()
    back = place.lay({"mine.txt": b"mine"}, "back")
    with pytest.raises(BadInput, match="holds other files than staging; accepted: a new or an empty folder"):
        place.download("staging")
    assert [path.name for path in back.iterdir()] == ["mine.txt"]
    (place.folder / "file").touch()
    with pytest.raises(BadInput, match="file is no folder; accepted: a new or an empty folder"):
        place.download("staging", "file")
    (place.folder / "empty").mkdir()
    assert place.download("staging", "empty").files == len(RELEASE)


@pytest.mark.usefixtures("pieces")
def test_a_later_run_goes_on_within_a_file(place: Place) -> None:
    data = os.urandom(300_000)
    place.upload({"a.bin": data, "b.txt": b"b"})
    place.hub.fail("storage_get", how="answer", at=200_000)
    place.hub.fail("storage_get", how=403)
    with pytest.raises(BadInput, match=r"a.bin at [0-9a-f]{40}: refused with 403"):
        place.download("staging")
    assert not (place.folder / "back").exists()
    place.hub.forget()
    done = place.download("staging")
    (asked,) = place.hub.requests("storage_get")
    assert asked.range is not None and asked.received == 0
    start = int(asked.range.removeprefix("bytes=").removesuffix("-"))
    assert 0 < start <= 200_000 and asked.sent == 300_000 - start
    assert back(place) == {"a.bin": data, "b.txt": b"b"}
    assert done.bytes_received in {300_000 - start, 300_000 - start + 1}


@pytest.mark.usefixtures("pieces")
def test_a_part_that_was_spoilt_is_fetched_anew(place: Place) -> None:
    place.upload({"a.bin": b"\0right" * 50_000})
    place.hub.fail("storage_get", how="answer", at=200_000)
    place.hub.fail("storage_get", how=403)
    with pytest.raises(BadInput):
        place.download("staging")
    (part,) = place.folder.glob(".back.*.partial/parts/*")
    with part.open("r+b") as file:
        file.write(b"wrong")
    place.download("staging")
    assert back(place) == {"a.bin": b"\0right" * 50_000}


@pytest.mark.parametrize("path", ["weights/one.bin", "serve/engine.py"])
def test_a_file_without_its_digest_is_refused(place: Place, path: str) -> None:
    staged = place.upload()
    found = place.hub.repository(REPO)
    stored = found.objects.path(found.tree(staged.oid)[path])
    data = bytearray(stored.read_bytes())
    data[7] ^= 1
    stored.write_bytes(data)
    with pytest.raises(GateFailed, match=f"{path} at {staged.oid}: what came has {len(data)} bytes and sha256"):
        place.download("staging")
    assert not (place.folder / "back").exists()


def test_one_download_at_a_time(place: Place) -> None:
    commit = place.upload().oid
    aside = place.folder / f".back.{commit}.partial"
    aside.mkdir()
    with (aside / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(BadInput, match=r"partial is being filled by another download; accepted: one at a time"):
            place.download("staging")
    assert place.download("staging").commit == commit


def test_a_revision_that_is_not_known(place: Place) -> None:
    place.upload()
    with pytest.raises(BadInput, match=r"revision 'v9' is not known; accepted: a commit .* or one of: main, staging"):
        place.download("v9")
    place.hub.repository(REPO).point("tags", "staging", place.head("main"))
    with pytest.raises(BadInput, match="revision 'staging' is a branch and a tag"):
        place.download("staging")
    with pytest.raises(BadInput, match="revision main holds no file; accepted: a release"):
        place.download("main")


@pytest.mark.parametrize("path", ["../up", "/abs", "a/../../b", "a//b", "a\\b", "a\0b", "", "."])
def test_a_listing_does_not_lead_out_of_the_folder(path: str) -> None:
    with pytest.raises(GateFailed, match="accepted: a path inside of the repository"):
        check_remote(REPO, path)

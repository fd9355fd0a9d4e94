"""A plan says what a run then does, and changes nothing."""

from __future__ import annotations

import pytest

from ledger.errors import BadInput
from publish.hub.plan import Plan, plan_promotion, plan_upload
from tests.publish.hub.conftest import OLDER, RELEASE, REPO, Content, Place

pytestmark = pytest.mark.filterwarnings("ignore:Use 'content=:DeprecationWarning")

WRITING = ("branch", "lfs_put", "lfs_part", "lfs_complete", "commit", "tag", "create_repo")


def planned(place: Place, content: Content) -> Plan:
    token, endpoint = place.hub.token, place.hub.endpoint
    return plan_upload(place.lay(content), REPO, branch="staging", token=token, endpoint=endpoint)


def promised(place: Place, commit: str, tag: str = "v1") -> Plan:
    return plan_promotion(REPO, commit, tag=tag, token=place.hub.token, endpoint=place.hub.endpoint)


def test_a_first_upload(place: Place) -> None:
    plan = planned(place, RELEASE)
    assert (plan.made, plan.parent, plan.unchanged) == (True, place.head("main"), False)
    assert {(move.path, move.bytes, move.state, move.sent) for move in plan.moves} == {
        (path, len(data), "new", len(data)) for path, data in RELEASE.items()
    }
    assert not place.hub.requests(*WRITING)
    done = place.upload()
    assert plan.bytes_sent == done.bytes_sent
    again = planned(place, RELEASE)
    assert again.unchanged and again.parent == done.oid and not again.made


def test_what_changes_file_by_file(place: Place) -> None:
    place.upload(RELEASE, "other")
    place.upload(OLDER)
    place.hub.forget()
    plan = planned(place, RELEASE)
    assert not place.hub.requests(*WRITING)
    moves = {move.path: (move.state, move.bytes, move.sent) for move in plan.moves}
    assert moves["serve/engine.py"] == ("there", len(RELEASE["serve/engine.py"]), 0)
    assert moves["gone/away.txt"] == ("deleted", len(OLDER["gone/away.txt"]), 0)
    assert moves["README.md"] == ("changed", len(RELEASE["README.md"]), len(RELEASE["README.md"]))
    # On another branch, so the Hub has it.
    assert moves["weights/one.bin"] == ("changed", len(RELEASE["weights/one.bin"]), 0)
    assert moves["weights/parts.safetensors"] == ("new", 256_000, 0)
    assert plan.bytes_sent == place.upload().bytes_sent


def test_a_promotion(place: Place) -> None:
    place.promote(place.upload(OLDER).oid, "v0")
    staged = place.upload()
    place.hub.forget()
    plan = promised(place, staged.oid)
    assert not place.hub.requests(*WRITING)
    moves = {move.path: (move.state, move.sent) for move in plan.moves}
    assert moves["gone/away.txt"] == ("deleted", 0) and moves["weights/parts.safetensors"] == ("new", 0)
    assert plan.bytes_sent == place.promote(staged.oid).bytes_sent
    assert promised(place, staged.oid).unchanged
    with pytest.raises(BadInput, match="tag v0 is on commit"):
        promised(place, staged.oid, "v0")


def test_lines_for_people(place: Place) -> None:
    place.upload(OLDER)
    lines = list(planned(place, OLDER | {"README.md": b"---\n---\nnew", "weights/new.bin": b"\0" * 2000}).lines())
    assert lines == [
        "new      weights/new.bin (2,000 bytes, 2,000 sent)",
        "changed  README.md (11 bytes, 11 sent)",
        f"{REPO}, branch staging at {place.head()}: 2 files change, 3 are there, 2,011 bytes would be sent",
    ]

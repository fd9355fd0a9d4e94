"""The command line as a process: what it says, how it ends, that it can be killed, and that no secret is said."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from signal import SIGKILL

import pytest

from ledger.errors import BadInput
from publish.hub.__main__ import main
from tests.hub import Exchange
from tests.publish.hub.conftest import LARGE, OLDER, RELEASE, REPO, Place, back

pytestmark = pytest.mark.filterwarnings("ignore:Use 'content=:DeprecationWarning")

WEIGHTS = {f"weights/{number}.bin": bytes([number]) * (90_000 + number) for number in range(12)}


def start(place: Place, *words: str) -> subprocess.Popen[str]:
    """The command in a process, with nothing of this one's accounts or settings."""
    own = {key: value for key, value in os.environ.items() if not key.startswith("HF_")}
    home = {"HF_HOME": str(place.folder / "home")}
    return subprocess.Popen(
        [sys.executable, "-m", "publish.hub", *words],
        env=own | home | place.hub.environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.fixture
def here(place: Place, monkeypatch: pytest.MonkeyPatch) -> Place:
    """This process with the address and the token where a person would put them."""
    monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", place.hub.endpoint)
    template = place.hub.endpoint + "/{repo_id}/resolve/{revision}/{filename}"
    monkeypatch.setattr("huggingface_hub.constants.HUGGINGFACE_CO_URL_TEMPLATE", template)
    monkeypatch.setattr("huggingface_hub.constants.HF_TOKEN_PATH", str(place.folder / "token"))
    monkeypatch.setenv("HF_TOKEN", place.hub.token)
    return place


def test_up_and_back_without_a_secret_said(here: Place, capsys: pytest.CaptureFixture[str]) -> None:
    folder, into, size = str(here.lay(RELEASE)), str(here.folder / "back"), sum(map(len, RELEASE.values()))
    here.hub.fail("lfs_put", how=503)
    process = start(here, "upload", folder, "--repo", REPO)
    said, complained = process.communicate()
    assert process.returncode == 0
    assert said == (
        f"hub: {REPO}, branch staging holds it now: commit {here.head()}, {len(RELEASE)} files sent ({size:,} bytes), "
        "0 were there\n"
    )
    assert complained.startswith("hub: PUT http") and complained.endswith(": answer 503\n")
    assert here.hub.token not in complained and "Signature" not in complained and complained.count("\n") == 1
    assert here.hub.repository(REPO).commit(here.head())["title"] == "Release folder release"
    main(["download", "--repo", REPO, "--revision", "staging", "--into", into])
    assert f"{len(RELEASE)} files, {size:,} bytes, {size:,} received" in capsys.readouterr().out
    assert back(here) == RELEASE


@pytest.mark.parametrize(
    ("words", "token", "sentence"),
    [
        (["upload", "DIR", "--repo", "foundry/none"], None, "foundry/none, its branches and tags: refused with 404"),
        (["upload", "DIR", "--repo", REPO], "hf_stranger", "refused with 401 (Invalid credentials"),
        (["upload", "DIR", "--repo", REPO], "hf_reader_read", "refused with 403 (Forbidden: pass a token"),
        (["upload", "DIR", "--repo", "a b"], None, "Hub repository 'a b': Repo id must"),
        (["upload", "DIR", "--repo", REPO, "--branch", "main"], None, "--branch main: main is for promotion alone"),
        (["upload", "missing", "--repo", REPO], None, "missing is no folder; accepted: the folder of a release"),
        (["download", "--repo", REPO, "--into", "DIR/a"], None, "--into: DIR/a is a file; accepted: a folder"),
        (["promote", "--repo", REPO], None, "invalid choice: 'promote'"),
        ([], None, "publish.hub: the following arguments are required: upload|plan|download"),
    ],
)
def test_wrong_input_is_one_sentence(
    here: Place, monkeypatch: pytest.MonkeyPatch, words: list[str], token: str | None, sentence: str
) -> None:
    folder = str(here.lay({"a": b"a"}))
    monkeypatch.setenv("HF_TOKEN", token or here.hub.token)
    with pytest.raises(BadInput) as caught:
        main([word.replace("DIR", folder) for word in words])
    assert sentence.replace("DIR", folder) in str(caught.value) and "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("constant", "value", "sentence"),
    [
        ("HF_HUB_OFFLINE", True, "HF_HUB_OFFLINE is set; accepted: unset"),
        ("ENDPOINT", "nowhere", "the endpoint is no address"),
        ("ENDPOINT", "http://[::1", "the endpoint is no address"),
    ],
)
def test_a_wrong_setting_is_one_sentence(
    here: Place, monkeypatch: pytest.MonkeyPatch, constant: str, value: object, sentence: str
) -> None:
    monkeypatch.setattr(f"huggingface_hub.constants.{constant}", value)
    with pytest.raises(BadInput, match=sentence):
        main(["upload", str(here.lay({"a": b"a"})), "--repo", REPO])


def test_the_token_file_is_one_of_the_usual_places(here: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    words = ["upload", str(here.lay(RELEASE)), "--repo", REPO]
    monkeypatch.setenv("HF_TOKEN", "")
    with pytest.raises(BadInput, match=r"refused with 401 .*; accepted: a valid token \(HF_TOKEN or the token file"):
        main(words)
    (here.folder / "token").write_text(here.hub.token)
    main(words)
    assert here.content(here.head()) == RELEASE


def test_a_plan_for_machines(here: Place, capsys: pytest.CaptureFixture[str]) -> None:
    main(["plan", str(here.lay(RELEASE)), "--repo", REPO, "--json"])
    plan = json.loads(capsys.readouterr().out)
    assert {move["path"]: move["sent"] for move in plan["moves"]} == {path: len(data) for path, data in RELEASE.items()}
    main(["plan", str(here.lay(RELEASE)), "--repo", REPO])
    assert f"{len(RELEASE)} files change" in capsys.readouterr().out


def test_an_upload_that_is_killed_goes_on_where_it_was(here: Place) -> None:
    here.upload(OLDER)
    before, content = here.head(), RELEASE | WEIGHTS
    folder = str(here.lay(content))
    arrived: list[str] = []
    process = None

    def kill(one: Exchange) -> None:
        arrived.extend([one.site] * (one.site == "lfs_put"))
        if process and len(arrived) == len(WEIGHTS) // 2:
            process.kill()

    here.on_arrival(kill)
    process = start(here, "upload", folder, "--repo", REPO)
    process.communicate()
    assert process.returncode == -SIGKILL
    objects = here.hub.repository(REPO).objects.folder / "lfs"
    # The Hub may still be at the files that it was given.
    deadline = time.monotonic() + 60
    while list(objects.glob("*.tmp")) and time.monotonic() < deadline:
        time.sleep(0.01)
    there = {path.name for path in objects.iterdir()}
    assert here.head() == before
    here.hub.forget()
    main(["upload", folder, "--repo", REPO])
    assert here.content(here.head()) == content
    sent = {one.path.split("?")[0].rsplit("/", 1)[1] for one in here.hub.requests("lfs_put")}
    # One of four at once was still on its way when six had begun, and two at least had arrived.
    assert len(sent) == len(here.hub.requests("lfs_put")) and not sent & there
    large = len(WEIGHTS) + sum(bool(data) for data in LARGE.values())
    assert 0 < len(sent) < large


@pytest.mark.soak
def test_a_process_that_is_killed_leaves_no_folder_of_a_download(here: Place) -> None:
    here.upload(WEIGHTS)
    into = here.folder / "back"
    process = None

    def kill(one: Exchange) -> None:
        if process and one.site == "storage_get" and len(here.hub.requests("storage_get")) == len(WEIGHTS) // 2:
            process.kill()

    here.on_arrival(kill)
    words = ["download", "--repo", REPO, "--revision", "staging", "--into", str(into)]
    process = start(here, *words)
    process.communicate()
    assert process.returncode == -SIGKILL and not into.exists()
    arrived = {path.name for path in Path(here.folder).rglob(".back.*/tree/weights/*")}
    here.hub.forget()
    main(words)
    assert back(here) == WEIGHTS
    assert len(here.hub.requests("storage_get")) <= len(WEIGHTS) - len(arrived) < len(WEIGHTS)

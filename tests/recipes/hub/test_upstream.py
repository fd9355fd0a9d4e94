"""The watch over pinned commits, against the stand-in of the Hub: what it finds, and what it must not call the same."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from huggingface_hub import CommitOperationAdd, CommitOperationDelete, HfApi

from config.sources import HubSource
from ledger.errors import BadInput
from recipes.hub.findings import read
from recipes.hub.upstream import main
from tests.hub import Hub
from tests.recipes.hub.subject import CARD, LARGE, REPO, WEIGHTS


@pytest.fixture
def config(source: HubSource, tmp_path: Path) -> Path:
    """A configuration that pins the repository's commit, and a checkpoint that has nothing to do with the Hub."""
    variant = {"name": "a", "kv_max": 256, "kv_bucket": 64}
    common = {"geometry": "tiny", "variants": [variant], "release": {"name": "demo", "latest": "a"}}
    path = tmp_path / "watched.yaml"
    checkpoints = {"gemma": common | {"source": source.model_dump()}, "own": common | {"source": {"kind": "tiny"}}}
    path.write_text(yaml.safe_dump({"name": "watched", "checkpoints": checkpoints}))
    return path


@pytest.fixture
def looked(config: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., dict[str, Any]]:
    """Runs the command; what it wrote of the checkpoint that is watched."""

    def run(*more: Path) -> dict[str, Any]:
        out = tmp_path / "new" / "upstream.json"
        monkeypatch.setattr("sys.argv", ["upstream", *map(str, (config, *more)), "--out", str(out)])
        assert main() == 0
        written: dict[str, Any] = json.loads(out.read_text())
        assert written["checkpoints"]["own"]["state"] == "unwatched"
        return dict(written["checkpoints"]["gemma"])

    return run


def client(hub: Hub) -> HfApi:
    return HfApi(endpoint=hub.endpoint, token=hub.token)


def blob_id(data: bytes) -> str:
    git = ["git", "hash-object", "--stdin"]
    return subprocess.run(git, input=data, capture_output=True, check=True).stdout.decode().strip()


def test_pinned_commit_that_is_the_head(source: HubSource, looked: Callable[..., dict[str, Any]]) -> None:
    found = looked()
    assert (found["state"], found["head"], found["files"]) == ("same", source.revision, [])


def test_every_kind_of_difference_with_its_digests_and_sizes(
    source: HubSource, hub: Hub, looked: Callable[..., dict[str, Any]], capsys: pytest.CaptureFixture[str]
) -> None:
    weights = WEIGHTS[::-1]
    commit = client(hub).create_commit(
        REPO,
        [
            CommitOperationAdd("model.safetensors", weights),
            CommitOperationAdd("chat_template.jinja", b"new"),
            CommitOperationAdd("notes.txt", b"ours"),
            CommitOperationDelete("config.json"),
        ],
        commit_message="moved on",
    )
    found = looked()
    assert (found["state"], found["pinned"], found["head"]) == ("changed", source.revision, commit.oid)
    assert found["files"] == [
        {
            "name": "chat_template.jinja",
            "pinned": None,
            "head": {"digest": blob_id(b"new"), "bytes": 3},
            "fetched": True,
        },
        {
            "name": "config.json",
            "pinned": {"digest": blob_id(b'{"model_type": "gemma4"}'), "bytes": 24},
            "head": None,
            "fetched": True,
        },
        {
            "name": "model.safetensors",
            "pinned": {"digest": LARGE, "bytes": len(WEIGHTS)},
            "head": {"digest": hashlib.sha256(weights).hexdigest(), "bytes": len(weights)},
            "fetched": True,
        },
        {
            "name": "notes.txt",
            "pinned": {"digest": blob_id(b"mine"), "bytes": 4},
            "head": {"digest": blob_id(b"ours"), "bytes": 4},
            "fetched": False,
        },
    ]
    said = f"gemma: {REPO} moved from {source.revision[:12]} to {commit.oid[:12]}: 2 changed, 1 added, 1 removed, 3 of"
    assert said in capsys.readouterr().out


def test_commit_that_changes_no_file_is_told_too(hub: Hub, looked: Callable[..., dict[str, Any]]) -> None:
    repository = hub.repository(REPO)
    head = repository.refs("branches")["main"]
    repository.advance("main", repository.tree(head), "empty", "", head)
    found = looked()
    assert (found["state"], found["files"], found["reason"]) == ("changed", [], None)


def test_another_licence_is_told(
    hub: Hub, looked: Callable[..., dict[str, Any]], capsys: pytest.CaptureFixture[str]
) -> None:
    client(hub).upload_file(repo_id=REPO, path_or_fileobj=b"---\nlicense: gemma\n---\n", path_in_repo="README.md")
    assert looked()["reason"] == "its licence is 'gemma' there, configured is 'apache-2.0'"
    assert "1 changed, 1 of them read by a build; its licence is 'gemma' there" in capsys.readouterr().out


def test_pinned_commit_that_is_gone(
    source: HubSource, hub: Hub, looked: Callable[..., dict[str, Any]], tmp_path: Path
) -> None:
    gone = tmp_path / "gone.yaml"
    gone.write_text(yaml.safe_dump({"checkpoints": {"gemma": {"source": {"revision": "0" * 40}}}}))
    found = looked(gone)
    assert (found["state"], found["pinned"], found["head"]) == ("gone", "0" * 40, source.revision)


def test_a_gated_repository_shows_what_it_lists(hub: Hub, looked: Callable[..., dict[str, Any]]) -> None:
    client(hub).upload_file(repo_id=REPO, path_or_fileobj=CARD + b"more", path_in_repo="README.md")
    hub.repository(REPO).change(gated="manual")
    assert [one["name"] for one in looked()["files"]] == ["README.md"]


def gated(hub: Hub) -> None:
    hub.fail("repo_info", how=403)


def private(hub: Hub) -> None:
    hub.repository(REPO).change(private=True)


def vanished(hub: Hub) -> None:
    client(hub).delete_repo(REPO)


def disabled(hub: Hub) -> None:
    hub.repository(REPO).change(disabled=True)


def broken(hub: Hub) -> None:
    hub.fail("repo_info", how=500)


def cut(hub: Hub) -> None:
    hub.fail("repo_info", how="answer", at=40)


def broken_halfway(hub: Hub) -> None:
    """The head has moved, and it is the pinned commit that cannot be listed."""
    client(hub).upload_file(repo_id=REPO, path_or_fileobj=CARD + b"more", path_in_repo="README.md")
    hub.fail("repo_info", how=503, skip=1)


def unlisted(hub: Hub) -> None:
    """A head without a single size: no listing to compare with."""
    repository = hub.repository(REPO)
    head = repository.refs("branches")["main"]
    repository.advance("main", repository.tree(head), "moved", "", head)
    path = repository.folder / "commits" / f"{repository.refs('branches')['main']}.json"
    facts = json.loads(path.read_text())
    facts["tree"]["config.json"]["size"] = None
    path.write_text(json.dumps(facts))


@pytest.mark.parametrize("change", [gated, private, vanished, disabled, broken, cut, broken_halfway, unlisted])
def test_what_cannot_be_told_is_unknown_and_never_the_same(
    change: Callable[[Hub], None], hub: Hub, looked: Callable[..., dict[str, Any]]
) -> None:
    change(hub)
    found = looked()
    assert (found["state"], found["head"], found["files"]) == ("unknown", None, [])
    assert REPO in found["reason"]
    assert "\n" not in found["reason"]


SHA = "5" * 40
FILE = '{"rfilename": "a", "blobId": "%s", "size": 1}' % ("6" * 40)


def listing(sha: str = SHA, file: str = FILE) -> bytes:
    return f'{{"id": "{REPO}", "sha": "{sha}", "siblings": [{file}]}}'.encode()


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (listing("<script>alert(1)</script>"), "the Hub tells no commit but '<script>"),
        (listing("\\ud800"), r"no commit but '\ud800'"),
        (listing(file=FILE.replace('"a"', '"\\ud800x"')), r"a file with the name '\ud800x'"),
        (listing(file=FILE.replace("6" * 40, "nope")), "lists 'a' without digest or size"),
        (listing(file=FILE.replace('"size": 1', '"size": -5')), "lists 'a' without digest or size"),
        (listing(file=FILE.replace('"size": 1', f'"size": {10**400}')), "lists 'a' without digest or size"),
        (b"[" * 100_000, "recursion"),
        *((answer, "") for answer in (b"[]", b"{}", b"<html>log in here</html>", b'{"id": "foundry/gemma"}', b"null")),
    ],
)
def test_an_odd_answer_makes_one_checkpoint_unknown_and_the_others_go_on(
    answer: bytes, said: str, source: HubSource, looked: Callable[..., dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    import httpx

    def odd(request: httpx.Request) -> httpx.Response:
        pinned = listing(source.revision) if source.revision in str(request.url) else answer
        return httpx.Response(200, content=pinned)

    with httpx.Client(transport=httpx.MockTransport(odd)) as session:
        monkeypatch.setattr("huggingface_hub.hf_api.get_session", lambda: session)
        found = looked()
    assert (found["state"], found["head"]) == ("unknown", None)
    assert said in found["reason"]


@pytest.mark.parametrize(
    ("variable", "said"), [("HF_ENDPOINT", "is out of reach"), ("HF_HUB_OFFLINE", "offline mode is enabled")]
)
def test_without_a_network_the_command_still_ends_well(config: Path, tmp_path: Path, variable: str, said: str) -> None:
    out = tmp_path / "upstream.json"
    command = [sys.executable, "-W", "error", "-m", "recipes.hub.upstream", str(config), "--out", str(out)]
    environment = os.environ | {"HF_ENDPOINT": "http://127.0.0.1:9"} | ({variable: "1"} if "OFF" in variable else {})
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    found = read(out, "--upstream")
    assert found.endpoint == "http://127.0.0.1:9"
    assert found.checkpoints["gemma"].state == "unknown"
    assert said in str(found.checkpoints["gemma"].reason)


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["{tmp}/none.yaml", "--out", "{tmp}/o"], "{tmp}/none.yaml: cannot be read"),
        (["{config}", "--out", "{tmp}"], "--out {tmp} is a folder; accepted: the path of a file"),
        (["{config}"], "upstream: the following arguments are required: --out; see --help"),
    ],
)
def test_bad_input_is_one_sentence(
    flags: list[str], said: str, config: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def filled(text: str) -> str:
        return text.replace("{tmp}", str(tmp_path)).replace("{config}", str(config))

    monkeypatch.setattr("sys.argv", ["upstream", *map(filled, flags)])
    with pytest.raises(BadInput) as refused:
        main()
    assert str(refused.value).startswith(filled(said))


def content(size: int) -> str:
    file = {"name": "a", "pinned": {"digest": SHA, "bytes": size}, "head": None, "fetched": True}
    found = {"a": {"state": "changed", "files": [file]}}
    return json.dumps({"asked": "now", "endpoint": "x", "checkpoints": found})


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[]", "accepted: "),
        ("{", "--upstream {path}"),
        ('{"asked": "now", "endpoint": "x"}', "{path}: checkpoints is missing"),
        ('{"asked": "now", "endpoint": "x", "checkpoints": {"a": {"state": "fine"}}}', "checkpoints.a.state is 'fine'"),
        (content(10**400), "bytes is 1000"),
        (content(-5), "bytes is -5"),
    ],
)
def test_a_damaged_file_is_one_sentence(text: str, said: str, tmp_path: Path) -> None:
    path = tmp_path / "upstream.json"
    path.write_text(text)
    with pytest.raises(BadInput) as refused:
        read(path, "--upstream")
    assert said.replace("{path}", str(path)) in str(refused.value)
    assert "\n" not in str(refused.value)

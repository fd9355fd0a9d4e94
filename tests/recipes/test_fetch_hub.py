"""The source kind `hub` against the stand-in of the Hub: what comes, what comes again, and every refusal."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from huggingface_hub import HfApi

from config.sources import HubSource
from ledger.errors import BadInput
from ledger.receipts import Receipt
from recipes.fetch import WANTED
from recipes.hub.source import obtain
from tests.hub import Hub

REPO = "foundry/gemma"
CARD = b"---\nlicense: apache-2.0\n---\n# A checkpoint\n"
WEIGHTS = bytes(range(256)) * 2000
LARGE = hashlib.sha256(WEIGHTS).hexdigest()
# The client uploads with an argument of httpx that is to go away.
pytestmark = pytest.mark.filterwarnings("ignore:Use 'content=:DeprecationWarning")


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    """A Hub that the client of this process takes for the real one; nobody is logged in."""
    with Hub(tmp_path / "hub") as one:
        for name, value in {
            "ENDPOINT": one.endpoint,
            "HUGGINGFACE_CO_URL_TEMPLATE": one.endpoint + "/{repo_id}/resolve/{revision}/{filename}",
            "HF_HUB_CACHE": str(tmp_path / "cache"),
            "HF_TOKEN_PATH": str(tmp_path / "token"),
            "HF_HUB_DISABLE_XET": True,
        }.items():
            monkeypatch.setattr(f"huggingface_hub.constants.{name}", value)
        monkeypatch.delenv("HF_TOKEN", raising=False)
        yield one


@pytest.fixture
def source(hub: Hub, tmp_path: Path) -> HubSource:
    """A repository with a card, weights, and files that no checkpoint needs, at its newest commit."""
    files = {
        "README.md": CARD,
        "config.json": b'{"model_type": "gemma4"}',
        "model.safetensors": WEIGHTS,
        "notes.txt": b"mine",
        "onnx/model.safetensors": b"another" * 100,
    }
    for name, content in files.items():
        path = tmp_path / "upload" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    return uploaded(hub, tmp_path / "upload")


@pytest.fixture
def waits(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Seconds between tries, which are not really waited."""
    seconds: list[float] = []
    monkeypatch.setattr("recipes.hub.transfer.time", SimpleNamespace(sleep=seconds.append))
    return seconds


def uploaded(hub: Hub, folder: Path) -> HubSource:
    api = HfApi(endpoint=hub.endpoint, token=hub.token)
    api.create_repo(REPO, exist_ok=True)
    commit = api.upload_folder(repo_id=REPO, folder_path=folder)
    hub.forget()
    return HubSource(kind="hub", repo=REPO, revision=str(commit.oid))


def get(source: HubSource, licence: str = "apache-2.0") -> Path:
    return obtain(source, licence, WANTED)[0]


def stored(hub: Hub, name: str) -> Path:
    """The Hub's own file of a name at main."""
    repository = hub.repository(REPO)
    return repository.objects.path(repository.tree(repository.refs("branches")["main"])[name])


def blobs(cache: Path) -> dict[str, int]:
    """Sizes of the content that the cache holds, by name."""
    return {path.name: path.stat().st_size for path in (cache / "models--foundry--gemma" / "blobs").glob("*")}


def test_files_of_a_checkpoint_come_once_and_are_what_the_hub_lists(
    source: HubSource, hub: Hub, tmp_path: Path
) -> None:
    folder, digests = obtain(source, "Apache-2.0", WANTED)
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == {
        "README.md": CARD,
        "config.json": b'{"model_type": "gemma4"}',
        "model.safetensors": WEIGHTS,
    }
    git = subprocess.run(["git", "hash-object", folder / "README.md"], capture_output=True, text=True, check=True)
    assert (digests["model.safetensors"], digests["README.md"]) == (LARGE, git.stdout.strip())
    hub.forget()
    assert obtain(source, "apache-2.0", WANTED) == (folder, digests)
    assert not hub.requests("resolve_get", "file_get", "storage_get")


def test_cache_of_the_client_is_used(source: HubSource, hub: Hub) -> None:
    HfApi(endpoint=hub.endpoint).snapshot_download(REPO, revision=source.revision)
    hub.forget()
    assert (get(source) / "model.safetensors").read_bytes() == WEIGHTS
    assert not hub.requests("resolve_get", "file_get", "storage_get")


@pytest.mark.parametrize("how", ["answer", 503, 429, "before"])
def test_connection_that_is_cut_goes_on_with_the_rest(
    source: HubSource, hub: Hub, waits: list[float], how: Any
) -> None:
    hub.fail("storage_get", how="answer", at=300_000)
    hub.fail("storage_get", how=how, at=100_000, wait=6)
    assert (get(source) / "model.safetensors").read_bytes() == WEIGHTS
    first, second, third = hub.requests("storage_get")
    assert (first.range, second.range) == (None, "bytes=300000-")
    came = 400_000 if how == "answer" else 300_000
    assert third.range == f"bytes={came}-"
    assert (first.sent, third.sent) == (300_000, len(WEIGHTS) - came)
    assert waits == [1, {"answer": 1, "before": 2}.get(how, 6)]


def test_what_came_outlives_a_run_that_gave_up(source: HubSource, hub: Hub, waits: list[float], tmp_path: Path) -> None:
    hub.fail("storage_get", how="answer", at=200_000)
    hub.fail("storage_get", how="before", times=5)
    with pytest.raises(BadInput, match=r"foundry/gemma cannot be read, as http://\S+ is out of reach \(.+\); accepted"):
        get(source)
    assert waits == [1, 2, 4, 8, 16]
    assert blobs(tmp_path / "cache")[f"{LARGE}.incomplete"] == 200_000
    hub.forget()
    assert (get(source) / "model.safetensors").read_bytes() == WEIGHTS
    assert [(one.range, one.sent) for one in hub.requests("storage_get")] == [("bytes=200000-", len(WEIGHTS) - 200_000)]


def test_what_came_outlives_a_killed_process(source: HubSource, hub: Hub, tmp_path: Path) -> None:
    hub.fail("storage_get", how="stall", at=200_000)
    program = (
        "import sys; from config.sources import HubSource; from recipes.hub.source import obtain; "
        "obtain(HubSource.model_validate_json(sys.argv[1]), 'apache-2.0', ['*.safetensors'])"
    )
    environment = os.environ | {"HF_ENDPOINT": hub.endpoint, "HF_HUB_CACHE": str(tmp_path / "cache")}
    with subprocess.Popen([sys.executable, "-c", program, source.model_dump_json()], env=environment) as process:
        while blobs(tmp_path / "cache").get(f"{LARGE}.incomplete") != 200_000:
            assert process.poll() is None
            time.sleep(0.01)
        process.send_signal(signal.SIGKILL)
    hub.forget()
    assert (get(source) / "model.safetensors").read_bytes() == WEIGHTS
    assert [(one.range, one.sent) for one in hub.requests("storage_get")] == [("bytes=200000-", len(WEIGHTS) - 200_000)]


def test_server_that_sends_all_of_it_again_is_understood(source: HubSource, hub: Hub, waits: list[float]) -> None:
    hub.fail("storage_get", how="answer", at=200_000)
    hub.fail("storage_get", how="whole")
    assert (get(source) / "model.safetensors").read_bytes() == WEIGHTS
    assert [one.sent for one in hub.requests("storage_get")] == [200_000, len(WEIGHTS)]


@pytest.mark.parametrize("rest", [b"damaged" + WEIGHTS[7:], b"damaged", WEIGHTS + b"more"])
def test_rest_of_an_earlier_run_that_is_damaged(source: HubSource, tmp_path: Path, rest: bytes) -> None:
    folder = tmp_path / "cache" / "models--foundry--gemma" / "blobs"
    folder.mkdir(parents=True)
    (folder / f"{LARGE}.incomplete").write_bytes(rest)
    if len(rest) <= len(WEIGHTS):
        with pytest.raises(BadInput, match=rf"^model\.safetensors of {REPO} came with digest \w+ and is not kept; "):
            get(source)
    assert (get(source) / "model.safetensors").read_bytes() == WEIGHTS


def test_cached_file_that_is_damaged_is_refused_and_fetched_anew(source: HubSource, tmp_path: Path) -> None:
    folder = get(source)
    (folder / "model.safetensors").resolve().write_bytes(WEIGHTS[:-1] + b"?")
    with pytest.raises(BadInput, match=rf"model\.safetensors has sha256 \w+ and is removed; accepted: {LARGE}, as"):
        get(source)
    assert (get(source) / "model.safetensors").read_bytes() == WEIGHTS


def test_offline_needs_a_whole_cache_and_nothing_else(
    source: HubSource, hub: Hub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    with pytest.raises(BadInput, match=r"is not whole in the cache \S+; accepted: a whole one, as HF_HUB_OFFLINE"):
        get(source)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", False)
    found = obtain(source, "apache-2.0", WANTED)
    hub.forget()
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    assert obtain(source, "apache-2.0", WANTED) == found
    weights = (found[0] / "model.safetensors").resolve()
    weights.write_bytes(b"damaged")
    with pytest.raises(BadInput, match=rf"model\.safetensors has sha256 \w+ and is removed; accepted: {LARGE}, as"):
        get(source)
    with pytest.raises(BadInput, match="is not whole in the cache"):
        get(source)
    assert hub.log == []


def gated(hub: Hub) -> None:
    hub.repository(REPO).change(gated="manual")


def relicensed(card: bytes) -> Callable[[Hub], str]:
    def change(hub: Hub) -> str:
        api = HfApi(endpoint=hub.endpoint, token=hub.token)
        return str(api.upload_file(repo_id=REPO, path_or_fileobj=card, path_in_repo="README.md").oid)

    return change


def huge(hub: Hub) -> str:
    repository = hub.repository(REPO)
    head = repository.refs("branches")["main"]
    tree = repository.tree(head)
    tree["model.safetensors"] = replace(tree["model.safetensors"], size=8 << 40)
    return repository.advance("main", tree, "huge", "", head)


def squashed(hub: Hub) -> str:
    return "0" * 40


REFUSALS: dict[str, tuple[Callable[[Hub], str | None], str | None, str]] = {
    "gated": (gated, None, r"is gated and no token is given; accepted: HF_TOKEN of an account that was let in at http"),
    "not let in": (gated, "read_token", "is gated and the token's account was not let in; accepted: one that was, by"),
    "private": (
        lambda hub: hub.repository(REPO).change(private=True),
        "read_token",
        r"is not at http://\S+, or private there; accepted: a repository that the token, if any, may read",
    ),
    "vanished": (
        lambda hub: HfApi(endpoint=hub.endpoint, token=hub.token).delete_repo(REPO),
        None,
        r"is not at http://\S+, or private there; accepted",
    ),
    "disabled": (
        lambda hub: hub.repository(REPO).change(disabled=True),
        None,
        r"is disabled at http://\S+; accepted: a repository that is open",
    ),
    "another licence": (
        relicensed(b"---\nlicense: gemma\n---\n"),
        None,
        r"has the licence 'gemma' in its metadata; accepted: 'apache-2\.0', as configured under licence",
    ),
    "no licence": (relicensed(b"# A card\n"), None, "has the licence None in its metadata; accepted: 'apache"),
    "token of nobody": (lambda hub: None, "hf_nobody", "does not know the token; accepted: a valid HF_TOKEN, or none"),
    "server error": (
        lambda hub: hub.fail("repo_info", how=500),
        None,
        "answers 500; accepted: another try later, which goes on from here",
    ),
    "error while linking": (lambda hub: hub.fail("resolve_head", how=403, times=9), None, "answers 403; accepted"),
    "no room": (huge, None, r"cache has room for [\d,]+ bytes; accepted: 8,796,[\d,]+, which foundry/gemma still"),
    "moved": (squashed, None, r"^source\.revision 0{40} is no commit of foundry/gemma, whose main is at {main}; "),
}


@pytest.mark.parametrize("case", REFUSALS)
def test_refusals_are_one_sentence_each(
    source: HubSource, hub: Hub, monkeypatch: pytest.MonkeyPatch, case: str, tmp_path: Path
) -> None:
    change, token, sentence = REFUSALS[case]
    main = source.revision
    source = source.model_copy(update={"revision": change(hub) or source.revision})
    if token:
        monkeypatch.setenv("HF_TOKEN", getattr(hub, token, token))
    with pytest.raises(BadInput, match=sentence.replace("{main}", main)) as refused:
        get(source)
    assert "\n" not in str(refused.value)
    if case != "error while linking":
        assert blobs(tmp_path / "cache") in ({}, {f"{blob_id(CARD)}.incomplete": 0})


def blob_id(data: bytes) -> str:
    git = ["git", "hash-object", "--stdin"]
    return subprocess.run(git, input=data, capture_output=True, check=True).stdout.decode().strip()


@pytest.mark.parametrize("name", ["model.safetensors", "README.md"])
def test_file_that_is_not_what_the_hub_lists(source: HubSource, hub: Hub, tmp_path: Path, name: str) -> None:
    path = stored(hub, name)
    digest, content = path.name, path.read_bytes()
    path.write_bytes(content[:-1] + b"?")
    with pytest.raises(
        BadInput, match=rf"^{name} of {REPO} came with digest \w+ and is not kept; accepted: {digest}, "
    ):
        get(source)
    assert not [kept for kept in blobs(tmp_path / "cache") if kept.startswith(digest)]


def test_no_network(source: HubSource, hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", "http://127.0.0.1:9")
    with pytest.raises(
        BadInput, match=r"is out of reach \(.*refused\); accepted: a network that reaches it, or HF_HUB"
    ):
        get(source)


def test_stage_from_its_command_line(tiny: tuple[Path, dict[str, Any]], hub: Hub, tmp_path: Path) -> None:
    uploaded(hub, tiny[0])
    api = HfApi(endpoint=hub.endpoint, token=hub.token)
    commit = api.upload_file(repo_id=REPO, path_or_fileobj=CARD, path_in_repo="README.md")
    hub.forget()
    source = {"kind": "hub", "repo": REPO, "revision": commit.oid}
    recipe = {"source": source, "geometry": "tiny", "licence": "apache-2.0", "files": {}, "template_sha256": None}
    out = tmp_path / "fetch.json"
    flags = ["--recipe", json.dumps(recipe), "--store", str(tmp_path / "store"), "--out", str(out)]
    environment = os.environ | {"HF_ENDPOINT": hub.endpoint, "HF_HUB_CACHE": str(tmp_path / "cache")}
    command = [sys.executable, "-m", "recipes.fetch", *flags]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode, "fetch: model-00001-of-00002.safetensors, " in done.stdout) == (0, True), done.stderr
    receipt = Receipt.read(out)
    assert receipt.facts["revision"] == commit.oid
    files = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in tiny[0].iterdir()}
    assert {name: ref.sha256 for name, ref in receipt.outputs.items()} == files
    assert receipt.facts["hub"]["digests"].keys() == files.keys() | {"README.md"}
    shards = [name for name in files if name.endswith(".safetensors")]
    assert all(receipt.facts["hub"]["digests"][name] == files[name] for name in shards)
    assert sorted(one.sent for one in hub.requests("storage_get")) == sorted(
        (tiny[0] / name).stat().st_size for name in shards
    )

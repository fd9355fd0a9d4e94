"""The source kind `hub` against the stand-in of the Hub: what comes, and what comes again."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from huggingface_hub import HfApi

from config.sources import HubSource
from ledger.errors import BadInput
from ledger.receipts import Receipt
from recipes.fetch import WANTED
from recipes.hub.source import obtain
from tests.hub import Hub
from tests.recipes.hub.subject import CARD, LARGE, REPO, WEIGHTS, blobs, get, uploaded


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

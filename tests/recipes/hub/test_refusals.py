"""The source kind `hub` against the stand-in of the Hub: every refusal."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from huggingface_hub import HfApi

from config.sources import HubSource
from ledger.errors import BadInput
from tests.hub import Hub
from tests.recipes.hub.subject import CARD, REPO, blobs, get, stored


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

"""Who may do what, and by which error the client tells the cases apart."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from huggingface_hub import HfApi
from huggingface_hub.errors import (
    DisabledRepoError,
    GatedRepoError,
    HfHubHTTPError,
    LocalEntryNotFoundError,
    RepositoryNotFoundError,
)

from tests.hub import Hub
from tests.hub.conftest import REPO


@pytest.fixture
def filled(api: HfApi) -> HfApi:
    api.upload_file(repo_id=REPO, path_or_fileobj=b"{}", path_in_repo="config.json")
    return api


@pytest.fixture
def ask(hub: Hub, tmp_path: Path, filled: HfApi) -> Callable[[Any], str]:
    """Download config.json with a token; returns the content."""

    def download(token: Any, repo: str = REPO) -> str:
        one = HfApi(endpoint=hub.endpoint, token=token)
        return Path(one.hf_hub_download(repo, "config.json", cache_dir=tmp_path / str(token))).read_text()

    return download


def status(error: pytest.ExceptionInfo[Any]) -> int:
    return int(error.value.response.status_code)


def test_whoami(hub: Hub) -> None:
    assert HfApi(endpoint=hub.endpoint, token=hub.token).whoami()["orgs"][0]["name"] == "foundry"
    assert HfApi(endpoint=hub.endpoint, token=hub.read_token).whoami()["auth"]["accessToken"]["role"] == "read"
    with pytest.raises(HfHubHTTPError, match="Invalid user token") as refused:
        HfApi(endpoint=hub.endpoint, token="hf_nobody").whoami()
    assert status(refused) == 401


def test_public_repository_is_for_everybody_and_a_missing_one_for_nobody(hub: Hub, ask: Callable[..., str]) -> None:
    assert ask(False) == ask(hub.read_token) == ask(hub.token) == "{}"
    for token, expected in ((False, 401), (hub.token, 404)):
        with pytest.raises(RepositoryNotFoundError) as refused:
            ask(token, "foundry/nowhere")
        assert status(refused) == expected


def test_private_repository_looks_missing_to_others(hub: Hub, ask: Callable[..., str]) -> None:
    hub.repository(REPO).change(private=True)
    assert ask(hub.token) == "{}"
    for token, expected in ((False, 401), (hub.read_token, 404)):
        with pytest.raises(RepositoryNotFoundError) as refused:
            ask(token)
        assert status(refused) == expected


def test_gated_repository_shows_its_metadata_and_keeps_its_files(hub: Hub, ask: Callable[..., str]) -> None:
    hub.repository(REPO).change(gated="manual")
    outsider = HfApi(endpoint=hub.endpoint, token=hub.read_token)
    assert outsider.model_info(REPO).gated == "manual"
    for token, expected in ((False, 401), (hub.read_token, 403)):
        with pytest.raises(GatedRepoError) as refused:
            ask(token)
        assert status(refused) == expected
    with pytest.raises(GatedRepoError):
        outsider.auth_check(REPO)
    hub.repository(REPO).change(accepted=["reader"])
    outsider.auth_check(REPO)
    assert ask(hub.read_token) == ask(hub.token) == "{}"


def test_disabled_repository(hub: Hub, filled: HfApi, ask: Callable[..., str]) -> None:
    hub.repository(REPO).change(disabled=True)
    with pytest.raises(DisabledRepoError):
        filled.model_info(REPO)
    with pytest.raises(LocalEntryNotFoundError):
        ask(hub.token)


@pytest.mark.parametrize(("name", "expected"), [("read_token", 403), (None, 401)])
def test_writing_needs_a_token_that_may_write(hub: Hub, filled: HfApi, name: str | None, expected: int) -> None:
    one = HfApi(endpoint=hub.endpoint, token=getattr(hub, name) if name else False)
    before = hub.repository(REPO).refs("branches")
    for act in (
        lambda: one.create_repo("foundry/other"),
        lambda: one.upload_file(repo_id=REPO, path_or_fileobj=b"x", path_in_repo="x"),
        lambda: one.create_tag(REPO, tag="x"),
        lambda: one.create_branch(REPO, branch="x"),
        lambda: one.delete_repo(REPO),
    ):
        with pytest.raises(HfHubHTTPError) as refused:
            act()
        assert status(refused) == expected
    assert hub.repository(REPO).refs("branches") == before
    assert hub.repository(REPO).refs("tags") == {}


def test_namespace_of_somebody_else_is_closed(hub: Hub, api: HfApi) -> None:
    with pytest.raises(HfHubHTTPError) as refused:
        api.create_repo("google/gemma")
    assert status(refused) == 403

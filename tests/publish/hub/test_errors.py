"""What the Hub says when it will not is told in one sentence that says what would do."""

from __future__ import annotations

import httpx
import pytest
from huggingface_hub.errors import LocalTokenNotFoundError

from ledger.errors import BadInput, FoundryError, GateFailed
from publish.hub.download import download
from publish.hub.errors import sentences
from tests.publish.hub.conftest import REPO, Place

pytestmark = pytest.mark.filterwarnings("ignore:Use 'content=:DeprecationWarning")


def as_reader(place: Place) -> str:
    """The sentence that a reader of the repository gets."""
    with pytest.raises(BadInput) as caught:
        download(REPO, "staging", place.folder / "back", token=place.hub.read_token, endpoint=place.hub.endpoint)
    return str(caught.value)


def test_a_gated_repository(place: Place) -> None:
    place.upload()
    place.hub.repository(REPO).change(gated="manual", accepted=[])
    sentence = as_reader(place)
    assert "refused with 403 (Access to model foundry/model is restricted" in sentence
    assert sentence.endswith("of an account that was granted access on the Hub's page")


def test_a_private_repository_looks_like_none(place: Place) -> None:
    place.upload()
    place.hub.repository(REPO).change(private=True)
    assert "refused with 404 (Repository not found); accepted: a repository that exists" in as_reader(place)


def test_a_disabled_repository(place: Place) -> None:
    place.hub.repository(REPO).change(disabled=True)
    assert "refused with 403 (Access to this resource is disabled); accepted: a token" in as_reader(place)


def test_a_card_that_the_hub_refuses(place: Place) -> None:
    with pytest.raises(
        BadInput, match=r"a commit on branch staging: Invalid metadata in README.md: refused with 400 \("
    ):
        place.upload({"README.md": b"---\nlicense: [\n---\n"})
    assert place.content(place.head()) == {}


@pytest.mark.parametrize("body", ["<html>a captive portal</html>", "[]", "{}", '{"branches": [], "tags": 1}', ""])
def test_an_answer_of_something_else(place: Place, monkeypatch: pytest.MonkeyPatch, body: str) -> None:
    monkeypatch.setattr(httpx.Client, "send", lambda *_, **__: httpx.Response(200, text=body, request=ANY))
    with pytest.raises(
        GateFailed, match=r"its branches and tags: what came back is not understood: .*; accepted: an answer"
    ):
        place.download("staging")


ANY = httpx.Request("GET", "https://hub.invalid/")


@pytest.mark.parametrize(
    ("raised", "kind", "part"),
    [
        (
            httpx.ReadTimeout("", request=ANY),
            GateFailed,
            "the connection failed: ReadTimeout; accepted: one that lasts",
        ),
        (httpx.ProxyError("no\n way", request=ANY), GateFailed, "the connection failed: no way;"),
        (LocalTokenNotFoundError(), BadInput, "no token is found; accepted: HF_TOKEN or the token file"),
        (GateFailed("a; accepted: b"), GateFailed, "a; accepted: b"),
        (ValueError("odd " * 400), GateFailed, "odd o..."),
    ],
)
def test_whatever_is_raised(raised: Exception, kind: type[FoundryError], part: str) -> None:
    with pytest.raises(kind) as caught, sentences("a/b", "its tree"):
        raise raised
    sentence = str(caught.value)
    assert sentence.startswith("Hub repository a/b, its tree: ") and part in sentence and "\n" not in sentence
    assert len(sentence) < 400


def test_an_error_of_this_disk_is_left_as_it_is() -> None:
    with pytest.raises(OSError, match="No space left"), sentences("a/b", "its tree"):
        raise OSError(28, "No space left on device", "/there")

"""How long is waited, how often is tried, and that the library is as it was afterwards."""

from __future__ import annotations

import socket
from itertools import pairwise

import httpx
import pytest
from huggingface_hub import get_session, logging
from huggingface_hub.utils.tqdm import are_progress_bars_disabled

from ledger.errors import GateFailed
from publish.hub.client import LONGEST_WAIT, WAITS, PatientClient, attempts, patient
from publish.hub.repository import Repository
from tests.publish.hub.conftest import REPO, Place


def refs(place: Place) -> None:
    with Repository(REPO, token=place.hub.token, endpoint=place.hub.endpoint) as hub:
        hub.refs()


def test_retry_after_is_honoured(place: Place) -> None:
    for wait in (7, 30):
        place.hub.fail("refs", how=429, wait=wait)
    place.hub.fail("refs", how=503, wait=5)
    refs(place)
    assert place.seconds == [7, 30, 5]


def test_the_rate_limit_of_the_hub_is_honoured(monkeypatch: pytest.MonkeyPatch) -> None:
    answers = [httpx.Response(429, headers={"ratelimit": '"api";r=0;t=55'}), httpx.Response(200)]
    seconds: list[float] = []
    monkeypatch.setattr("publish.hub.client.time.sleep", seconds.append)
    monkeypatch.setattr(httpx.Client, "send", lambda *_, **__: answers.pop(0))
    assert PatientClient().get("http://hub.invalid/").status_code == 200
    assert seconds == [55]


def test_a_wait_beyond_a_window_is_not_waited(place: Place) -> None:
    place.hub.fail("refs", how=429, wait=int(LONGEST_WAIT) + 1)
    with pytest.raises(
        GateFailed, match=r"refs: answer 429, it asks to wait 331 s; accepted: an answer; run again later"
    ):
        refs(place)
    assert place.seconds == [] and len(place.hub.requests("refs")) == 1


def test_waits_grow(place: Place) -> None:
    place.hub.fail("refs", how=500, times=99)
    with pytest.raises(GateFailed, match=f"answer 500, tried {len(WAITS) + 1} times"):
        refs(place)
    assert place.seconds == list(WAITS) and all(a <= b for a, b in pairwise(WAITS))
    place.seconds.clear()
    assert list(attempts()) == list(range(len(WAITS) + 1)) and place.seconds == list(WAITS)


def test_a_hub_that_is_not_there_is_one_sentence(place: Place) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    with (
        pytest.raises(
            GateFailed, match=f"its branches and tags: GET http://127.0.0.1:{port}/.*Connection refused, tried"
        ),
        Repository(REPO, endpoint=f"http://127.0.0.1:{port}") as hub,
    ):
        hub.refs()
    assert place.seconds == list(WAITS)


def test_a_server_that_does_not_answer_is_not_waited_for_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """The library asks for the first page of a tree with no timeout at all."""
    monkeypatch.setattr("publish.hub.client._TIMEOUT", httpx.Timeout(0.05))
    monkeypatch.setattr("publish.hub.client.WAITS", ())
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"http://127.0.0.1:{silent.getsockname()[1]}"
        with pytest.raises(GateFailed, match="timed out, tried 1 times"), Repository(REPO, endpoint=address) as hub:
            hub.tree("0" * 40)


def test_the_library_is_as_it_was_afterwards() -> None:
    def now() -> tuple[bool, bool, int]:
        return isinstance(get_session(), PatientClient), are_progress_bars_disabled(), logging.get_verbosity()

    before = now()
    with patient():
        assert now()[:2] == (True, True)
        with patient():
            assert now()[:2] == (True, True)
        assert now()[:2] == (True, True)
    assert now() == before and not before[0]

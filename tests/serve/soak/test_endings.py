"""A hundred SIGTERMs and a hundred spot notices to servers under load: nothing that runs is lost.

About ten minutes: each ending has a process of its own. The 100 ms want a machine with nothing else to do.
"""

from __future__ import annotations

import json
import random
import threading
import time
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.serve.http.notices import metadata
from tests.serve.http.process import Server, server

pytestmark = pytest.mark.soak
ENDINGS = 100
CLIENTS = 6
GRACE = 10.0
"""Seconds for the process to end; the longest answer takes a fraction of one."""
NOT_READY = 0.1
BODY: dict[str, Any] = {"prompt": "weather", "max_tokens": 100, "ignore_eos": True, "temperature": 0}


@dataclass
class Client:
    """Asks again and again until it is refused; `lost` says what it should not have seen."""

    url: str
    stream: bool
    answers: int = 0
    refusals: int = 0
    lost: list[str] = field(default_factory=list)
    began: threading.Event = field(default_factory=threading.Event)

    def run(self) -> None:
        """Until the first refusal."""
        with httpx.Client(timeout=30) as client:
            while not (self.refusals or self.lost):
                try:
                    self._ask(client)
                except httpx.HTTPError as error:
                    self.lost.append(repr(error))
        self.began.set()

    def _ask(self, client: httpx.Client) -> None:
        body = BODY | {"stream": self.stream}
        with client.stream("POST", f"{self.url}/v1/completions", json=body) as response:
            text = b""
            for part in response.iter_raw():
                text += part
                if response.status_code == 200:
                    self.began.set()
        if response.status_code == 503:
            wise = {"retry-after", "retry-after-ms"} <= set(response.headers)
            if json.loads(text)["error"]["code"] != "draining" or not wise:
                self.lost.append(f"503 with {text!r}")
            self.refusals += 1
        elif response.status_code != 200 or not _whole(text, self.stream):
            self.lost.append(f"{response.status_code}: {text[-200:]!r}")
        else:
            self.answers += 1


def _whole(text: bytes, stream: bool) -> bool:
    """Whether all hundred tokens were answered."""
    if not stream:
        answer = json.loads(text)
        return bool(answer["usage"]["completion_tokens"] == 100 and "finish_detail" not in answer["choices"][0])
    *_, last, done, rest = text.split(b"\n\n")
    choice = json.loads(last.removeprefix(b"data: "))["choices"][0]
    return (choice["finish_reason"], done, rest) == ("length", b"data: [DONE]", b"") and "finish_detail" not in choice


@pytest.mark.parametrize("how", ["SIGTERM", "spot notice"])
def test_no_running_request_is_lost(folder: Path, chance: random.Random, how: str) -> None:
    waits = [_end(folder, chance, how) for _ in range(ENDINGS)]
    assert max(waits) <= NOT_READY, f"{sum(wait > NOT_READY for wait in waits)} of {ENDINGS}: {sorted(waits)[-5:]}"


def _end(folder: Path, chance: random.Random, how: str) -> float:
    """End one server under load; seconds after the word that it last said it was ready."""
    with metadata() if how == "spot notice" else nullcontext() as service:
        flags = ("--spot", service.address, "--spot-seconds", "0.02") if service else ()
        with server(folder, *flags, batch=2) as running:
            clients = [Client(running.url, stream=bool(number % 2)) for number in range(CLIENTS)]
            threads = [threading.Thread(target=client.run) for client in clients]
            for thread in threads:
                thread.start()
            assert all(client.began.wait(10) for client in clients)
            # Between two answers and in the middle of one, as it comes.
            threading.Event().wait(chance.uniform(0, 0.05))
            if service:
                service.noticed.set()
                assert service.told.wait(5)
                told = service.told_at
            else:
                told = time.monotonic()
                running.terminate()
            last = _last_ready(running, told)
            for thread in threads:
                thread.join(GRACE)
            ended = time.monotonic()
            code, log = running.wait()
            assert time.monotonic() - ended <= GRACE
            assert code == 0
            assert [client.lost for client in clients] == [[]] * CLIENTS
            assert all(client.refusals == 1 for client in clients)
            assert [line["why"].startswith(how) for line in log if line["event"] == "draining"] == [True]
            assert [line["clean"] for line in log if line["event"] == "ended"] == [True]
            return last - told


def _last_ready(running: Server, told: float) -> float:
    """When /ready last said so."""
    last = told
    with httpx.Client() as client:
        while client.get(f"{running.url}/ready").status_code == 200:
            last = time.monotonic()
    return last

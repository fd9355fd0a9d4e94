"""Ten thousand requests of every kind, each answered as specified, in memory that stays flat.

About five minutes.
"""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest

from tests.serve.http.process import Server, server

pytestmark = pytest.mark.soak
REQUESTS = 10_000
WARM = 2_000
"""Requests after which memory counts: caches and the allocator's arenas are filled by then."""
CLIENTS = 8
GROWTH_MB = 20
Check = Callable[[httpx.Response], None]
CHAT, COMPLETIONS, GENERATE = "/v1/chat/completions", "/v1/completions", "/generate"
MESSAGES = [{"role": "user", "content": "The weather in Paris"}]


def refused(status: int, param: str | None, code: str) -> Check:
    """An error in the one envelope."""

    def check(response: httpx.Response) -> None:
        error = response.json()["error"]
        assert (response.status_code, error["param"], error["code"]) == (status, param, code)

    return check


def answered(choices: int, generated: int | None, *, finish: str = "length", text: str = "") -> Check:
    """Whole answers with `generated` tokens in all where that is known, in each of which is `text`."""

    def check(response: httpx.Response) -> None:
        assert response.status_code == 200, response.text
        body = response.json()
        found = body.get("choices", [body])
        assert [choice["finish_reason"] for choice in found] == [finish] * choices
        assert generated in (None, body["usage"]["completion_tokens"])
        assert all(text in (choice["text"] if "text" in choice else choice["message"]["content"]) for choice in found)

    return check


def streamed(choices: int, text: str) -> Check:
    """A stream of answers in each of which is `text`, each finished once, in the right order."""

    def check(response: httpx.Response) -> None:
        assert response.status_code == 200
        *lines, done, rest = response.text.split("\n\n")
        assert (done, rest) == ("data: [DONE]", "")
        said, ends = [""] * choices, [0] * choices
        for line in lines:
            for choice in json.loads(line.removeprefix("data: "))["choices"]:
                index = choice["index"]
                assert not ends[index]
                said[index] += choice["text"] if "text" in choice else choice["delta"].get("content") or ""
                ends[index] += choice["finish_reason"] is not None
        assert ends == [1] * choices
        assert all(text in one for one in said)

    return check


# The model repeats the prompt, so that an answer of enough tokens holds it.
MIX: list[tuple[str, Any, Check]] = [
    (COMPLETIONS, {"prompt": "weather", "max_tokens": 20}, answered(1, 20, text="weather")),
    (COMPLETIONS, {"prompt": "weather", "max_tokens": 20, "stream": True}, streamed(1, "weather")),
    (COMPLETIONS, {"prompt": "weather", "max_tokens": 9, "n": 3, "seed": 1}, answered(3, 27)),
    (COMPLETIONS, {"prompt": ["weather", "Paris"], "max_tokens": 5, "logprobs": 2}, answered(2, 10)),
    (COMPLETIONS, {"prompt": "weather", "max_tokens": 4, "echo": True, "logprobs": 0}, answered(1, 4, text="weather")),
    (COMPLETIONS, {"prompt": "weather", "max_tokens": 0, "echo": True}, answered(1, 0, text="weather")),
    (COMPLETIONS, {"prompt": [20] * 100, "max_tokens": 28}, answered(1, 28)),
    (COMPLETIONS, {"prompt": "weather", "logit_bias": {"106": 100}}, answered(1, 1, finish="stop")),
    (CHAT, {"messages": MESSAGES, "max_tokens": 40}, answered(1, None, finish="stop", text="The weather in Paris")),
    (CHAT, {"messages": MESSAGES, "max_tokens": 40, "stream": True, "n": 2}, streamed(2, "The weather in Paris")),
    (CHAT, {"messages": MESSAGES, "max_tokens": 8, "logprobs": True, "top_logprobs": 3}, answered(1, 8)),
    (GENERATE, {"prompt": "weather", "max_tokens": 20}, answered(1, 20, text="weather")),
    (CHAT, {"messages": [], "max_tokens": 8}, refused(400, "messages", "invalid_value")),
    (CHAT, {"messages": MESSAGES, "model": "another"}, refused(404, "model", "model_not_found")),
    (CHAT, {"messages": MESSAGES, "functions": []}, refused(400, "functions", "unsupported_parameter")),
    (COMPLETIONS, {"prompt": "weather", "temperature": 3}, refused(400, "temperature", "invalid_value")),
    (COMPLETIONS, {"prompt": [20] * 129}, refused(400, "prompt", "context_length_exceeded")),
    (COMPLETIONS, {"prompt": [700]}, refused(400, "prompt", "invalid_value")),
    (GENERATE, {"prompt": "weather", "max_tokens": 1000}, refused(400, "max_tokens", "context_length_exceeded")),
    (GENERATE, {}, refused(400, "prompt", "missing_parameter")),
    ("/v1/nothing", {}, refused(404, None, "not_found")),
]


def test_ten_thousand_mixed_requests(folder: Path, chance: random.Random) -> None:
    with server(folder, "--queue", "200") as running:
        process = psutil.Process(running.process.pid)
        asyncio.run(_ask(running, chance, WARM))
        memory, descriptors = process.memory_info().rss, running.descriptors()
        asyncio.run(_ask(running, chance, REQUESTS - WARM))
        grown = (process.memory_info().rss - memory) / 1e6
        assert grown <= GROWTH_MB
        assert running.descriptors() <= descriptors + CLIENTS
        lines = httpx.get(f"{running.url}/metrics").text.splitlines()
        assert {f"neff_foundry_num_requests_{kind} 0.0" for kind in ("running", "waiting")} <= set(lines)


async def _ask(running: Server, chance: random.Random, count: int) -> None:
    """`count` requests from CLIENTS clients at once, with a new connection each fifty."""
    asked = iter([chance.choice(MIX) for _ in range(count)])

    async def client() -> None:
        while batch := list(islice(asked, 50)):
            async with httpx.AsyncClient(base_url=running.url, timeout=30) as session:
                for path, body, check in batch:
                    check(await session.post(path, json={"temperature": 0} | body))

    await asyncio.gather(*(client() for _ in range(CLIENTS)))

"""What a server must do as a process of its own, whatever it runs on: OpenAI's client, clients that leave, its end."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

import httpx
import openai
import pytest

from tests.serve.http.process import Server

GREEDY: Any = {"temperature": 0}


def official_client(server: Server, prompt: str, tokens: int) -> str:
    """OpenAI's client, whole answers, streams and errors; the greedy answer to a chat of one message."""
    messages: Any = [{"role": "user", "content": prompt}]
    with openai.OpenAI(base_url=f"{server.url}/v1", api_key="none") as client:
        [model] = [card.id for card in client.models.list()]
        asked: Any = GREEDY | {"model": model, "messages": messages, "max_tokens": tokens}
        answer = client.chat.completions.create(**asked)
        text: str | None = answer.choices[0].message.content
        assert text is not None
        with client.chat.completions.create(**asked, stream=True, stream_options={"include_usage": True}) as stream:
            chunks = list(stream)
        assert "".join(choice.delta.content or "" for chunk in chunks for choice in chunk.choices) == text
        assert chunks[-1].usage == answer.usage
        completion = client.completions.create(
            model=model, prompt=prompt, max_tokens=6, extra_body={"ignore_eos": True}, **GREEDY
        )
        assert completion.usage is not None
        assert completion.usage.completion_tokens == 6
        with pytest.raises(openai.BadRequestError) as caught:
            client.chat.completions.create(model=model, messages=messages, temperature=3)
        error = caught.value
        assert (error.param, error.code, error.type) == ("temperature", "invalid_value", "invalid_request_error")
        with pytest.raises(openai.NotFoundError):
            client.chat.completions.create(model="gpt", messages=messages)
        return text


def many_at_once(server: Server, prompts: Sequence[str], tokens: int) -> list[str]:
    """Streams side by side, each of which says what it says alone; what they say."""

    async def one(client: openai.AsyncOpenAI, prompt: str) -> str:
        messages: Any = [{"role": "user", "content": prompt}]
        stream = await client.chat.completions.create(
            model=model, messages=messages, max_tokens=tokens, stream=True, **GREEDY
        )
        return "".join([chunk.choices[0].delta.content or "" async for chunk in stream])

    async def many() -> list[str]:
        async with openai.AsyncOpenAI(base_url=f"{server.url}/v1", api_key="none") as client:
            alone = [await one(client, prompt) for prompt in prompts]
            assert await asyncio.gather(*(one(client, prompt) for prompt in prompts)) == alone
            return alone

    model = httpx.get(f"{server.url}/v1/models").json()["data"][0]["id"]
    return asyncio.run(many())


def hang_ups(server: Server, prompt: str, tokens: int, count: int = 60) -> None:
    """Clients that leave before their answer is there, stream and not; nothing of them stays."""
    before = 0
    for _ in range(2):  # the first round opens what stays open
        before = server.descriptors()
        for number in range(count):
            body = json.dumps({"prompt": prompt, "max_tokens": tokens, "stream": bool(number % 2)}).encode()
            head = f"POST /v1/completions HTTP/1.1\r\nhost: x\r\ncontent-length: {len(body)}\r\n"
            with socket.create_connection(("127.0.0.1", server.port)) as connection:
                connection.sendall(head.encode() + b"content-type: application/json\r\n\r\n" + body)
                if number % 3:
                    connection.recv(100)
    server.until_idle()
    deadline = time.monotonic() + 10
    while server.descriptors() > before and time.monotonic() < deadline:
        server.until_idle()
    assert server.descriptors() <= before


def end(server: Server, how: Callable[[], None], prompt: str, tokens: int) -> list[dict[str, Any]]:
    """End the server while it answers: what runs is answered whole, what waits is told; the log."""
    results: dict[int, int] = {}
    parts: list[bytes] = []
    first = threading.Event()
    body: Any = {"prompt": prompt, "max_tokens": tokens, "ignore_eos": True}

    def stream() -> None:
        with httpx.stream("POST", f"{server.url}/v1/completions", json=body | {"stream": True}, timeout=30) as response:
            for part in response.iter_raw():
                parts.append(part)
                first.set()

    def ask(number: int) -> None:
        try:
            response = httpx.post(f"{server.url}/v1/completions", json=body, timeout=30)
        except httpx.ConnectError:
            return  # too late for even a refusal
        results[number] = response.status_code

    threads = [threading.Thread(target=stream)]
    threads[0].start()
    assert first.wait(10)
    threads += [threading.Thread(target=ask, args=(number,)) for number in range(3)]
    for thread in threads[1:]:
        thread.start()
    how()
    for thread in threads:
        thread.join(20)
    code, log = server.wait()
    assert code == 0
    assert b"".join(parts).endswith(b"data: [DONE]\n\n")
    assert set(results.values()) <= {200, 503}
    assert [line["clean"] for line in log if line["event"] == "ended"] == [True]
    return log


def draining(log: list[dict[str, Any]]) -> str:
    """Why the server of `log` left."""
    [line] = [line for line in log if line["event"] == "draining"]
    return str(line["why"])

"""Real processes on loopback: OpenAI's own client, signals, spot notices, clients that hang up."""

from __future__ import annotations

import asyncio
import json
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import openai
import pytest

from tests.serve.http.notices import metadata
from tests.serve.http.process import Server, server

USER: Any = [{"role": "user", "content": "The weather in Paris"}]


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    from tests.serve.http.scripted import write_text

    folder = tmp_path_factory.mktemp("process")
    write_text(folder)
    with server(folder, "--queue", "200") as running:
        yield running


def test_the_official_client(shared: Server) -> None:
    with openai.OpenAI(base_url=f"{shared.url}/v1", api_key="none") as client:
        assert [model.id for model in client.models.list()] == ["fake"]
        answer = client.chat.completions.create(model="fake", messages=USER, max_tokens=30, temperature=0)
        text = answer.choices[0].message.content
        assert text is not None
        assert "The weather in Paris" in text
        with client.chat.completions.create(
            model="fake",
            messages=USER,
            max_tokens=30,
            temperature=0,
            stream=True,
            stream_options={"include_usage": True},
        ) as stream:
            chunks = list(stream)
        pieces = [choice.delta.content or "" for chunk in chunks for choice in chunk.choices]
        assert "".join(pieces) == text
        assert chunks[-1].usage == answer.usage
        completion = client.completions.create(model="fake", prompt="The weather", max_tokens=6, temperature=0)
        assert completion.usage is not None
        assert completion.usage.completion_tokens == 6
        with pytest.raises(openai.BadRequestError) as caught:
            client.chat.completions.create(model="fake", messages=USER, temperature=3)
        assert (caught.value.param, caught.value.code, caught.value.type) == (
            "temperature",
            "invalid_value",
            "invalid_request_error",
        )
        with pytest.raises(openai.NotFoundError):
            client.chat.completions.create(model="gpt", messages=USER)


def test_the_official_client_many_at_once(shared: Server) -> None:
    async def one(client: openai.AsyncOpenAI, number: int) -> str:
        messages: Any = [{"role": "user", "content": f"weather {number}"}]
        stream = await client.chat.completions.create(
            model="fake", messages=messages, temperature=0, max_tokens=40, stream=True
        )
        pieces = [chunk.choices[0].delta.content or "" async for chunk in stream]
        return "".join(pieces)

    async def many() -> list[str]:
        async with openai.AsyncOpenAI(base_url=f"{shared.url}/v1", api_key="none") as client:
            return await asyncio.gather(*(one(client, number) for number in range(40)))

    for number, text in enumerate(asyncio.run(many())):
        assert f"weather {number}" in text


def test_clients_that_hang_up_leave_nothing_open(shared: Server) -> None:
    for _ in range(2):  # the first round opens what stays open
        before = shared.descriptors()
        for number in range(60):
            body = json.dumps({"prompt": "weather", "max_tokens": 100, "stream": bool(number % 2)}).encode()
            head = f"POST /v1/completions HTTP/1.1\r\nhost: x\r\ncontent-length: {len(body)}\r\n"
            with socket.create_connection(("127.0.0.1", shared.port)) as connection:
                connection.sendall(head.encode() + b"content-type: application/json\r\n\r\n" + body)
                if number % 3:
                    connection.recv(100)
    deadline = time.monotonic() + 10
    while shared.descriptors() > before and time.monotonic() < deadline:
        _idle(shared)
    assert shared.descriptors() <= before
    _idle(shared)


@pytest.mark.parametrize("how", ["signal", "spot"])
def test_a_running_answer_survives_the_end(folder: Path, how: str) -> None:
    with (
        metadata() as service,
        server(folder, "--spot", service.address, "--spot-seconds", "0.02", batch=1) as running,
    ):
        results: dict[int, int] = {}
        texts: list[bytes] = []
        body: Any = {"prompt": "weather", "max_tokens": 100, "ignore_eos": True, "stream": True}

        def stream() -> None:
            with httpx.stream("POST", f"{running.url}/v1/completions", json=body, timeout=30) as response:
                for part in response.iter_raw():
                    texts.append(part)
                    first.set()

        def ask(number: int) -> None:
            try:
                response = httpx.post(f"{running.url}/v1/completions", json=body | {"stream": False})
            except httpx.ConnectError:
                return  # too late for even a refusal
            results[number] = response.status_code

        first = threading.Event()
        threads = [threading.Thread(target=stream)]
        threads[0].start()
        assert first.wait(10)
        threads += [threading.Thread(target=ask, args=(number,)) for number in range(3)]
        for thread in threads[1:]:
            thread.start()
        if how == "signal":
            running.terminate()
        else:
            service.noticed.set()
        for thread in threads:
            thread.join(20)
        code, log = running.wait()
        assert code == 0
        assert b"".join(texts).endswith(b"data: [DONE]\n\n")
        assert set(results.values()) <= {200, 503}
        [draining] = [line for line in log if line["event"] == "draining"]
        assert draining["why"].startswith("SIGTERM" if how == "signal" else "spot notice")
        assert [line["clean"] for line in log if line["event"] == "ended"] == [True]


def test_an_idle_server_ends_at_once(folder: Path) -> None:
    with server(folder) as running:
        running.terminate()
        assert running.wait()[0] == 0


def test_a_port_in_use_is_one_sentence(folder: Path, shared: Server) -> None:
    command = [sys.executable, "-m", "tests.serve.http.process", str(folder), "--port", str(shared.port)]
    done = subprocess.run(command, capture_output=True, text=True, env={"SLOTS": "1"}, check=False, timeout=30)
    assert done.returncode == 2
    assert f"cannot listen on 127.0.0.1, port {shared.port}" in done.stderr.splitlines()[-1]


def test_damage_that_the_load_finds_ends_with_one_sentence(folder: Path) -> None:
    command = [sys.executable, "-m", "tests.serve.http.process", str(folder), "--port", "0"]
    environment = {"SLOTS": "1", "DAMAGE": "weights: sha256 is 1; the manifest accepts 2"}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False, timeout=30)
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1] == "error: weights: sha256 is 1; the manifest accepts 2"
    assert '"ready"' not in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["nowhere"], "nowhere/manifest.json: cannot be read"),
        (["nowhere", "--port", "x"], "--port is 'x'; whole numbers from 0 to 65535 are accepted"),
        (["nowhere", "--nothing"], "--nothing is not known; accepted: --host"),
        ([], "no artifact is named"),
    ],
)
def test_a_bad_start_is_one_sentence(arguments: list[str], words: str) -> None:
    command = [sys.executable, "-m", "serve", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=30)
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1].startswith("error: ")
    assert words in done.stderr.splitlines()[-1]
    assert "Traceback" not in done.stderr


def _idle(running: Server) -> None:
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        lines = httpx.get(f"{running.url}/metrics").text.splitlines()
        if {"neff_foundry_num_requests_running 0.0", "neff_foundry_num_requests_waiting 0.0"} <= set(lines):
            return
    raise AssertionError("slots are still held")

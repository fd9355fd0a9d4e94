"""Connections by hand: bytes that are no HTTP, heads without end, requests that do not arrive, wishes for HTTP/2."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from serve.http.connection import HEAD_LIMIT
from tests.serve.http.listening import Client, listening
from tests.serve.http.scripted import scene

pytestmark = pytest.mark.anyio
LONG = "The weather in Paris is fine today, and the model answers with a call. "


@pytest.fixture(params=["asyncio", "uvloop"])
def anyio_backend(request: pytest.FixtureRequest) -> tuple[str, dict[str, Any]]:
    """Either loop: the server's own is uvloop, and its transports are not asyncio's."""
    return "asyncio", {"use_uvloop": request.param == "uvloop"}


def get(path: str, *headers: str) -> bytes:
    return "\r\n".join([f"GET {path} HTTP/1.1", "host: x", *headers, "", ""]).encode()


def post(body: dict[str, Any], *headers: str) -> tuple[bytes, bytes]:
    """Head and body of a request to /generate."""
    content = json.dumps(body | {"temperature": 0}).encode()
    lines = ["POST /generate HTTP/1.1", "host: x", "content-type: application/json", f"content-length: {len(content)}"]
    return "\r\n".join([*lines, *headers, "", ""]).encode(), content


def refused(answer: bytes, status: int, code: str) -> None:
    """One answer, which is an error in the envelope."""
    head, _, body = answer.partition(b"\r\n\r\n")
    first, *lines = head.decode().split("\r\n")
    headers = dict(line.split(": ", 1) for line in lines)
    assert first.split()[1] == str(status)
    assert (headers["connection"], headers["content-type"]) == ("close", "application/json")
    assert len(headers["x-request-id"]) == 24
    assert json.loads(body)["error"]["code"] == code


async def ask(port: int, *parts: bytes) -> bytes:
    client = await Client.to(port)
    for part in parts:
        await client.send(part)
    return await client.rest()


CHUNKED = b"POST /generate HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n"


@pytest.mark.parametrize(
    "sent",
    [
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",  # TLS
        b"hello\r\n\r\n",
        b"GET / HTTP/7.0\r\n\r\n",
        b"CONNECT x:443 HTTP/1.1\r\nhost: x\r\n\r\n",
        "GET /\u00e9 HTTP/1.1\r\nhost: x\r\n\r\n".encode(),
        get("/health", "x: a\x00b"),
        get("/health", "content-length: 1", "content-length: 2"),
        get("/health", "content-length: 1", "transfer-encoding: chunked"),
        CHUNKED + b"z\r\n",
    ],
)
async def test_what_is_no_http_is_refused_in_the_envelope(folder: Path, sent: bytes) -> None:
    async with scene(folder) as one, listening(one) as port:
        refused(await ask(port, sent), 400, "invalid_http")
        assert 'neff_foundry_errors_total{kind="invalid_http"} 1.0' in (await one.client.get("/metrics")).text


async def test_a_head_has_a_largest_size(folder: Path) -> None:
    async with scene(folder) as one, listening(one) as port:
        just = HEAD_LIMIT - len("/healthhostxconnectionclosex") - 3 * 4
        for size, status in ((just, b"200"), (just + 1, b"431")):
            answer = await ask(port, get("/health", "connection: close", "x: " + "a" * size))
            assert answer.split()[1] == status


@pytest.mark.parametrize(
    "sent",
    [
        get("/" + "a" * 300_000),
        get("/", *(f"x{number}: 1" for number in range(30_000))),
        b"GET / HTTP/1.1\r\nx: " + b"a" * 1_000_000,  # and no end
        CHUNKED + b"0\r\n" + b"x: 1\r\n" * 200_000 + b"\r\n",
        CHUNKED + b"1;" + b"a" * 300_000 + b"\r\n{\r\n0\r\n\r\n",
    ],
    ids=["target", "headers", "header", "trailers", "extension"],
)
async def test_what_is_larger_is_refused(folder: Path, sent: bytes) -> None:
    async with scene(folder) as one, listening(one) as port:
        refused(await ask(port, sent), 431, "head_too_large")


async def test_a_request_that_does_not_arrive_is_not_waited_for(folder: Path) -> None:
    async with scene(folder, batch=1, receive_seconds=0.1) as one, listening(one) as port:
        one.says(LONG)
        one.runtime.pause()
        running, behind = await Client.to(port), await Client.to(port)
        await running.send(b"".join(post({"prompt": "Hello", "max_tokens": 5}, "connection: close")))
        await behind.send(b"".join(post({"prompt": "Hello", "max_tokens": 5})) + get("/health", "connection: close"))
        # Of these, each takes longer than a request may, one after the other.
        assert await ask(port) == b""
        refused(await ask(port, get("/health")[:-2]), 408, "request_timeout")
        head, body = post({"prompt": "Hello"})
        refused(await ask(port, head, body[:-1]), 408, "request_timeout")
        one.runtime.go()
        assert b'"completion_tokens":5' in await running.rest()
        assert (await behind.rest()).count(b"HTTP/1.1 200 OK") == 2


async def test_an_answer_that_is_not_read_is_given_up(folder: Path) -> None:
    async with scene(folder, receive_seconds=0.1) as one, listening(one) as port:
        before = len(asyncio.all_tasks())
        client = await Client.to(port, limit=1)
        await client.send(get("/openapi.json") * 500)  # 16 MB of answers, more than the kernel keeps
        async with asyncio.timeout(20):
            while len(asyncio.all_tasks()) == before:
                await asyncio.sleep(0)
            while len(asyncio.all_tasks()) > before:
                await asyncio.sleep(0)
        assert (await client.rest()).count(b"HTTP/1.1 200 OK") < 500


async def test_nothing_is_written_into_an_answer(folder: Path) -> None:
    async with scene(folder) as one, listening(one) as port:
        one.says(LONG)
        one.runtime.pause()
        client = await Client.to(port)
        await client.send(b"".join(post({"prompt": "Hello", "stream": True})))
        one.runtime.go(3)
        got = await client.until(b"data: ")
        await client.send(b"no HTTP at all\r\n\r\n")
        got += await client.rest()
        assert got.count(b"HTTP/1.1") == 1
        one.runtime.go()
        await one.idle()


H2C = (
    "connection: Upgrade, HTTP2-Settings",
    "upgrade: h2c",
    "http2-settings: AAEAAEAAAAIAAAABAAMAAABkAAQBAAAAAAUAAEAA",
)


async def test_a_wish_for_another_protocol_costs_no_body(folder: Path) -> None:
    async with scene(folder) as one, listening(one) as port:
        one.says(LONG)
        for pieces in (post({"prompt": "Hello", "max_tokens": 3}, *H2C), (b"".join(post({"prompt": "Hello"}, *H2C)),)):
            client = await Client.to(port)
            for piece in pieces:
                await client.send(piece)
            assert (await client.until(b"\r\n\r\n")).startswith(b"HTTP/1.1 200 OK")
            assert b'"finish_reason"' in await client.until(b"}}")
            await client.send(get("/ready", "connection: close"))
            assert (await client.rest()).endswith(b'{"status":"ready"}')


async def test_requests_in_a_row_are_answered_in_their_order(folder: Path) -> None:
    async with scene(folder) as one, listening(one) as port:
        one.says(LONG)
        first = b"".join(post({"prompt": "Hello", "max_tokens": 4, "stream": True}))
        many = get("/health", *H2C) * 300
        answers = (await ask(port, first + many + get("/ready", "connection: close"))).split(b"HTTP/1.1 ")
        assert len(answers) == 1 + 302
        assert b"[DONE]" in answers[1]
        assert all(answer.startswith(b"200") for answer in answers[1:])
        assert answers[-1].endswith(b'{"status":"ready"}')


async def test_a_client_that_leaves_with_half_a_request_is_told_apart(
    folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "serve")
    async with scene(folder) as one, listening(one) as port:
        head, body = post({"prompt": "Hello"}, "expect: 100-continue")
        client = await Client.to(port)
        await client.send(head + body[:-1])
        await client.until(b"100 Continue\r\n\r\n")  # the route waits for the body
        client.leave()
        async with asyncio.timeout(10):
            while not caplog.records:
                await asyncio.sleep(0)
        [line] = [vars(record)["fields"] for record in caplog.records]
        assert line["error"] == "client_gone"

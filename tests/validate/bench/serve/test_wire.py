"""The client against a server that sends what it is told, byte by byte."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence

import pytest

from validate.bench.serve.wire import Reply, get, post

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"


def chunked(*parts: bytes) -> bytes:
    return b"".join(b"%x\r\n%b\r\n" % (len(part), part) for part in parts) + b"0\r\n\r\n"


def talk(answers: Sequence[bytes], *, method: str = "POST") -> tuple[Reply, bytes]:
    """The reply to a request that is answered in these pieces, and the request."""
    asked = b""

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal asked
        asked = await reader.readuntil(b"\r\n\r\n")
        if method == "POST":
            asked += await reader.readuntil(b"}")
        for answer in answers:
            writer.write(answer)
            await writer.drain()
        writer.close()

    async def both() -> Reply:
        async with await asyncio.start_server(handle, "127.0.0.1", 0) as server:
            url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1/x"
            return await (post(url, {"a": "ü"}) if method == "POST" else get(url))

    return asyncio.run(both()), asked


def test_events_are_whole_wherever_the_bytes_are_cut() -> None:
    body = 'data: {"text": "ü\\n\\n"}\n\ndata: {"n": 2}\n\ndata: [DONE]\n\n'.encode()
    for cut in range(1, len(body)):
        reply, _ = talk([HEAD + chunked(body[:cut], body[cut:])])
        assert [event for _, event in reply.events()] == [{"text": "ü\n\n"}, {"n": 2}]
        assert reply.ended


def test_an_event_has_the_time_at_which_it_was_whole() -> None:
    reply = Reply(parts=[(1.0, b'data: {"n"'), (2.0, b': 1}\n\ndata: {"n": 2}\n'), (3.0, b"\n")])
    assert reply.events() == [(2.0, {"n": 1}), (3.0, {"n": 2})]
    assert not reply.ended


def test_a_body_of_known_length_and_headers() -> None:
    answer = b"HTTP/1.1 429 Too Many\r\nRetry-After: 2\r\ncontent-length: 9\r\n\r\n" + b'{"e": 1}\n'
    reply, asked = talk([answer])
    assert (reply.status, reply.headers["retry-after"], reply.json()) == (429, "2", {"e": 1})
    assert 0 < reply.head_s <= reply.parts[0][0] - reply.sent
    head, body = asked.split(b"\r\n\r\n")
    assert head.startswith(b"POST /v1/x HTTP/1.1\r\n")
    assert json.loads(body) == {"a": "ü"}


def test_a_request_without_a_body() -> None:
    reply, asked = talk([b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"], method="GET")
    assert (reply.body, asked[:4]) == (b"ok", b"GET ")


@pytest.mark.parametrize("answer", [HEAD + b"5\r\nab", HEAD + chunked(b"ab")[:-5], b"HTTP/1.1 200 OK\r\n"])
def test_a_connection_that_breaks_is_no_reply(answer: bytes) -> None:
    with pytest.raises(EOFError):
        talk([answer])

"""A client that is cheap enough to time a server with: one request a connection, bytes kept with the time they came.

Departs from HTTP libraries: nothing is parsed while the clock runs, as client and server share the machine.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

DONE = b"[DONE]"
_LARGEST = 1 << 20


@dataclass
class Reply:
    """A response: `sent` and the time of each part are seconds of one clock, `head_s` is until the headers came."""

    status: int = 0
    headers: dict[str, str] = field(default_factory=dict)
    sent: float = 0.0
    head_s: float = 0.0
    parts: list[tuple[float, bytes]] = field(default_factory=list)

    @property
    def body(self) -> bytes:
        """The whole body."""
        return b"".join(part for _, part in self.parts)

    def json(self) -> Any:
        """The body as JSON."""
        return json.loads(self.body)

    def events(self) -> list[tuple[float, Any]]:
        """Every event of a stream but [DONE], each with the time when it was whole."""
        pairs = ((at, one.removeprefix(b"data: ")) for at, one in self._pieces())
        return [(at, json.loads(data)) for at, data in pairs if data != DONE]

    @property
    def ended(self) -> bool:
        """Whether a stream's last word is [DONE]."""
        return self.body.endswith(b"data: " + DONE + b"\n\n")

    def _pieces(self) -> Iterator[tuple[float, bytes]]:
        held = b""
        for at, part in self.parts:
            *whole, held = (held + part).split(b"\n\n")
            yield from ((at, one.strip()) for one in whole if one.strip())


async def post(url: str, payload: Mapping[str, Any]) -> Reply:
    """Send `payload` as JSON and read the response to its end; OSError or EOFError when the connection breaks."""
    return await _exchange("POST", url, json.dumps(payload).encode())


async def get(url: str) -> Reply:
    """Fetch `url`."""
    return await _exchange("GET", url, b"")


async def _exchange(method: str, url: str, body: bytes) -> Reply:
    place = urlsplit(url)
    reply = Reply(sent=time.perf_counter())
    reader, writer = await asyncio.open_connection(place.hostname, place.port, limit=_LARGEST)
    try:
        lines = (
            f"{method} {place.path} HTTP/1.1",
            f"host: {place.netloc}",
            "content-type: application/json",
            f"content-length: {len(body)}",
            "connection: close",
        )
        writer.write("\r\n".join(lines).encode() + b"\r\n\r\n" + body)
        await writer.drain()
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        reply.head_s = time.perf_counter() - reply.sent
        reply.status = int(head[0].split()[1])
        pairs = (line.partition(":") for line in head[1:] if line)
        reply.headers = {name.strip().lower(): value.strip() for name, _, value in pairs}
        await _read(reader, reply)
    finally:
        writer.close()
    return reply


async def _read(reader: asyncio.StreamReader, reply: Reply) -> None:
    """The body, in the pieces in which it was sent where it is chunked."""
    if reply.headers.get("transfer-encoding") != "chunked":
        part = await reader.readexactly(int(reply.headers.get("content-length", "0")))
        reply.parts.append((time.perf_counter(), part))
        return
    while size := int(await reader.readuntil(b"\r\n"), 16):
        part = await reader.readexactly(size + 2)
        reply.parts.append((time.perf_counter(), part[:-2]))
    await reader.readexactly(2)

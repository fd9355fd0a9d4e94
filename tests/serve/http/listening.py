"""The real application on a real socket, in the test's own process."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import uvicorn

from serve.http.server import configured
from tests.serve.http.scripted import Scene


@asynccontextmanager
async def listening(one: Scene) -> AsyncIterator[int]:
    """The port on which `one` answers."""
    server = uvicorn.Server(configured(one.desk))
    with socket.create_server(("127.0.0.1", 0)) as listener:
        task = asyncio.create_task(server.serve([listener]))
        try:
            yield listener.getsockname()[1]
        finally:
            server.should_exit = True
            await task


class Client:
    """A connection by hand."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer

    @classmethod
    async def to(cls, port: int, limit: int = 65_536) -> Client:
        """`limit` is about the most that is taken in without being asked for."""
        return cls(*await asyncio.open_connection("127.0.0.1", port, limit=limit))

    async def send(self, data: bytes) -> None:
        """Send, as far as the server reads."""
        try:
            self._writer.write(data)
            await self._writer.drain()
        except OSError:
            pass  # what it has answered is still to be read

    async def until(self, text: bytes) -> bytes:
        """What comes, up to and with `text`."""
        async with asyncio.timeout(20):
            return await self._reader.readuntil(text)

    async def rest(self) -> bytes:
        """What comes until the server closes the connection."""
        found = b""
        async with asyncio.timeout(20):
            try:
                while part := await self._reader.read(65_536):
                    found += part
            except OSError:
                pass  # it closed with something unread
        self._writer.close()
        return found

    def leave(self) -> None:
        self._writer.transport.abort()

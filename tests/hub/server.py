"""The Hub stand-in as a server: in a thread for tests, in the foreground for `python -m tests.hub`.

The Hub answers at 127.0.0.1 and its storage host at localhost, on the same port: two host names, so that the client
treats them as the two hosts that they are.
"""

from __future__ import annotations

import asyncio
import secrets
import socket
from pathlib import Path
from threading import Thread
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route, request_response
from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.server import ServerState

from tests.hub import routes_files, routes_repository, routes_upload, storage
from tests.hub.access import Account, Library
from tests.hub.answers import Refusal, refused
from tests.hub.faults import UNKNOWN, Cut, Exchange, Fault, Watch
from tests.hub.repository import Repository
from tests.hub.tap import Cuttable, Tap

ROUTES = routes_repository.ROUTES + routes_upload.ROUTES + routes_files.ROUTES + storage.ROUTES
TOKEN = "hf_maker_write"
READ_TOKEN = "hf_reader_read"
ACCOUNTS = {
    TOKEN: Account("maker", write=True, organizations=("foundry",)),
    READ_TOKEN: Account("reader", write=False),
}


class Hub:
    """A Hub on a free port of this machine for as long as the context lasts; its state is below `root` and stays.

    `page` is the number of entries of a page of the tree, `part_size` the bytes above which a large file comes in
    parts, `regular_limit` the bytes above which any file is large.
    """

    def __init__(
        self,
        root: Path,
        *,
        port: int = 0,
        page: int = 1000,
        part_size: int = 16 << 20,
        regular_limit: int = 10 << 20,
        accounts: dict[str, Account] | None = None,
    ) -> None:
        self.root, self.token, self.read_token = root, TOKEN, READ_TOKEN
        self.watch = Watch()
        self.holdings = Library(root, ACCOUNTS if accounts is None else accounts)
        self._socket = _listening(port)
        self.port: int = self._socket.getsockname()[1]
        self.endpoint, self.storage = (f"http://{host}:{self.port}" for host in ("127.0.0.1", "localhost"))
        app = Starlette(routes=self._routes(), exception_handlers={Refusal: refused})
        for name, value in {
            "holdings": self.holdings,
            "endpoint": self.endpoint,
            "storage": self.storage,
            "secret": secrets.token_bytes(),
            "page": page,
            "part_size": part_size,
            "regular_limit": regular_limit,
        }.items():
            setattr(app.state, name, value)
        self._config = uvicorn.Config(_quoted(app), log_level="critical", lifespan="off")
        self._loop, self._stop = asyncio.new_event_loop(), asyncio.Event()
        self._thread = Thread(target=self.run, daemon=True)

    def run(self) -> None:
        """Serve until the context ends, or the process does."""
        self._loop.run_until_complete(self._serve())
        self._loop.close()

    def __enter__(self) -> Hub:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join()

    async def _serve(self) -> None:
        # uvicorn's own loop looks ten times a second whether to stop, which is too slow for a Hub per test.
        self._config.load()
        state = ServerState()
        server = await self._loop.create_server(lambda: Cuttable(self._config, state, {}), sock=self._socket)
        await self._stop.wait()
        server.close()
        for connection in list(state.connections):
            connection.transport.abort()
        await asyncio.gather(*state.tasks, return_exceptions=True)

    @property
    def environment(self) -> dict[str, str]:
        """What a process needs to talk to this Hub as its maker."""
        return {"HF_ENDPOINT": self.endpoint, "HF_TOKEN": self.token, "HF_HUB_DISABLE_XET": "1"}

    @property
    def log(self) -> list[Exchange]:
        """The requests since the start or since `forget`, oldest first."""
        return list(self.watch.log)

    def forget(self) -> None:
        """Empty the log and drop the faults that did not come."""
        self.watch.log.clear()
        self.watch.clear()

    def requests(self, *sites: str) -> list[Exchange]:
        """The logged requests at these sites."""
        return [one for one in self.log if one.site in sites]

    def fail(
        self, site: str, *, times: int = 1, how: int | Cut = 503, at: int | None = None, skip: int = 0, wait: int = 0
    ) -> None:
        """Let the next `times` requests at `site` fail, after `skip` that pass; see `tests.hub.faults`.

        `at` is the number of bytes of the body that pass before it is cut, `wait` the seconds of Retry-After.
        """
        self.watch.fail(site, Fault(how, at, wait), times, skip)

    def repository(self, identity: str) -> Repository:
        """The repository OWNER/NAME; KeyError if it is not there."""
        found = self.holdings.get(identity)
        if found is None:
            raise KeyError(identity)
        return found

    def _routes(self) -> list[Route]:
        listed = [
            Route(path, Tap(site, request_response(handler), self.watch), methods=[method])
            for site, method, path, handler in ROUTES
        ]
        return [*listed, Route("/{path:path}", Tap(UNKNOWN, request_response(_unknown), self.watch))]


def _listening(port: int) -> socket.socket:
    # Named as TCP, or asyncio leaves Nagle's algorithm on and every answer waits 40 ms for an acknowledgement.
    made = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    made.bind(("127.0.0.1", port))
    made.listen()
    return made


async def _unknown(request: Request) -> Response:
    return JSONResponse({"error": f"the stand-in has no {request.method} {request.url.path}"}, 404)


def _quoted(app: ASGIApp) -> ASGIApp:
    """Route by the path as it was sent, as a quoted slash is part of a name."""

    async def wrapped(scope: Scope, receive: Receive, send: Send) -> None:
        changed: dict[str, Any] = dict(scope)
        if scope["type"] == "http":
            changed["path"] = scope["raw_path"].decode()
        await app(changed, receive, send)

    return wrapped

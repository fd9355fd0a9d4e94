"""One server process: listen, load, serve, drain, end. Returns the exit code.

The port is bound first, so that a port in use is told before anything is read; requests are refused with 503 until
the artifact is loaded, warm and checked.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
import socket
import sys
from collections.abc import Iterator
from functools import partial
from typing import Any, cast

import uvicorn

from serve.engine import Engine
from serve.errors import ServeError
from serve.http.app import create_app
from serve.http.connection import Connection
from serve.http.desk import Desk
from serve.http.log import LOG, event
from serve.http.metrics import Metrics
from serve.http.opening import Opened, Source
from serve.http.settings import Settings
from serve.http.spot import SpotNotices
from serve.service.service import Service

_LAST_BYTES = 5.0  # seconds for responses that are complete but not sent
# How long a connection may wait for its next request, in seconds. A load balancer of AWS keeps its own for 60, and what
# it sends down one that is closed in that moment is lost.
_IDLE = 75
# How long a thread may keep the interpreter from another, in seconds: a request that is being read and checked would
# else hold up the engine's next step for Python's default, 5 ms.
_TURN = 0.001


class _Uvicorn(uvicorn.Server):
    """Leaves signals to us: uvicorn closes the door at once, we first say through it that we are leaving."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Capture none."""
        yield


def bind(host: str, port: int) -> socket.socket:
    """A listening socket; ServeError when the address is taken or not ours."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        listener = socket.socket(family, kind, protocol)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
    except OSError as error:
        raise ServeError(
            f"cannot listen on {host}, port {port} ({error.strerror}); a free port of this host is accepted (--port)"
        ) from None
    return listener


def configured(desk: Desk) -> uvicorn.Config:
    """uvicorn's configuration for the application over `desk`."""
    seconds, count_error = desk.settings.receive_seconds, desk.metrics.error
    return uvicorn.Config(
        create_app(desk),
        http=cast(Any, partial(Connection, seconds=seconds, count_error=count_error)),
        log_config=None,
        access_log=False,
        lifespan="off",
        ws="none",
        server_header=False,
        timeout_keep_alive=_IDLE,
        timeout_graceful_shutdown=int(_LAST_BYTES),
    )


async def serve(settings: Settings, source: Source) -> int:
    """Serve until a signal, a spot notice or a failure; ServeError when the source cannot be served."""
    listener = bind(settings.host, settings.port)
    sys.setswitchinterval(_TURN)
    metrics = Metrics()
    service = Service(settings.limits, metrics)
    desk = Desk(settings, service, metrics)
    server = _Uvicorn(configured(desk))
    serving = asyncio.create_task(server.serve([listener]))
    leaving = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, _leave, service, leaving, signal.Signals(number).name)
    notices = asyncio.create_task(_spot(settings, service, leaving))
    try:
        return await _run(settings, source, desk, leaving, listener)
    finally:
        notices.cancel()
        server.should_exit = True
        await serving
        event("ended", clean=service.stop())


async def _run(settings: Settings, source: Source, desk: Desk, leaving: asyncio.Event, listener: socket.socket) -> int:
    service = desk.service
    opened: list[Opened] = []

    def loading() -> Engine:
        opened.append(source.load(lambda words: event("start", step=words)))
        return opened[0].engine

    service.start(loading)
    wish = asyncio.create_task(leaving.wait())
    await _either(wish, service.loaded)
    if service.loaded.done():
        service.loaded.result()
        desk.opened(opened[0].text, opened[0].facts)
        host, port = listener.getsockname()[:2]
        event("ready", address=f"http://{host}:{port}", model=desk.model, slots=opened[0].engine.slots)
    await _either(wish, service.failure)
    if service.failure.done():
        LOG.error("the engine failed", exc_info=service.failure.result())
        # Those who wait for an answer are told before the door closes.
        await asyncio.sleep(0)
        return 1
    await _drained(settings, service)
    await asyncio.sleep(settings.linger_seconds)
    return 0


async def _either(*futures: asyncio.Future[Any]) -> None:
    await asyncio.wait(futures, return_when=asyncio.FIRST_COMPLETED)


async def _drained(settings: Settings, service: Service) -> None:
    try:
        async with asyncio.timeout(settings.drain_seconds):
            await service.drained.wait()
    except TimeoutError:
        event("drain_cut", running=service.running)
        service.cut()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_LAST_BYTES):
                await service.drained.wait()


def _leave(service: Service, leaving: asyncio.Event, why: str) -> None:
    if not leaving.is_set():
        event("draining", why=why, running=service.running, waiting=service.waiting)
        service.drain()
        leaving.set()


async def _spot(settings: Settings, service: Service, leaving: asyncio.Event) -> None:
    if settings.spot:
        notice = await SpotNotices(settings.spot).wait(settings.spot_seconds)
        _leave(service, leaving, f"spot notice: {notice}")

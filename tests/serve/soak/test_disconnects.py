"""Five hundred clients that leave, stream and not, at any moment: slots, tasks, jobs and descriptors come back.

About half a minute.
"""

from __future__ import annotations

import asyncio
import gc
import json
import random
import socket
import struct
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx
import pytest

from serve.service.job import Job
from tests.serve.http.process import Server, server
from tests.serve.http.scripted import Call, scene

pytestmark = [pytest.mark.soak, pytest.mark.anyio]
LEAVERS = 500
ROUTES: list[tuple[str, dict[str, Any]]] = [
    ("/v1/chat/completions", {"messages": [{"role": "user", "content": "Hello"}], "max_tokens": 60}),
    ("/v1/completions", {"prompt": "Hello", "max_tokens": 60}),
    ("/v1/completions", {"prompt": ["Hello", "World"], "max_tokens": 60, "logprobs": 1}),
    ("/v1/completions", {"prompt": "Hello", "max_tokens": 60, "n": 2, "echo": True, "logprobs": 0}),
    ("/generate", {"prompt": "Hello", "max_tokens": 60}),
]
ENDLESS = {"ignore_eos": True, "temperature": 0}


async def test_a_slot_is_free_within_one_step_of_each_leaver(folder: Path, chance: random.Random) -> None:
    async with scene(folder, batch=4) as one:
        one.says("The weather in Paris is fine today. " * 4)
        service, runtime = one.desk.service, one.runtime
        tasks, left = len(asyncio.all_tasks()), 0
        runtime.pause()
        while left < LEAVERS:
            if left % 10 == 0:  # one that stays to its end, and keeps its connection open
                runtime.go()
                stays = one.call(*ROUTES[left // 10 % len(ROUTES)])
                await stays.done
                assert stays.status == 200
                await one.idle()
                runtime.pause()
            calls: list[Call] = []
            for _ in range(chance.randint(1, 3)):
                path, body = chance.choice(ROUTES)
                calls.append(one.call(path, body | ENDLESS | {"stream": chance.random() < 0.5}))
            begun = runtime.steps
            runtime.go(count := chance.randint(0, 40))
            # The step after those that are let through has begun and waits.
            await asyncio.to_thread(runtime.wait, begun + count + 1)
            for call in calls:
                call.leave()
            await asyncio.gather(*(call.done for call in calls))
            # A step of the engine runs two graphs at most: a chunk of prefill and a decode step.
            runtime.go(2)
            await one.idle()
            assert runtime.steps <= begun + count + 2
            assert (service.seated, service.admitted) == (0, 0)
            left += len(calls)
        runtime.go()
        await asyncio.sleep(0)
        assert len(asyncio.all_tasks()) == tasks
        del calls, call, stays
        assert (await one.complete(max_tokens=2)).status_code == 200
        await asyncio.sleep(0)
        gc.collect()
        # The engine's thread may hold what its last step brought until the next one.
        assert sum(type(thing) is Job for thing in gc.get_objects()) <= 1


def test_leavers_over_sockets_leave_no_descriptor_and_no_thread(folder: Path, chance: random.Random) -> None:
    with server(folder, "--queue", "100") as running:
        for _ in range(40):  # opens what stays open
            _leave(running, chance)
        running.until_idle()
        before = _held(running)
        for number in range(LEAVERS):
            _leave(running, chance)
            if number % 10 == 0:
                assert httpx.get(f"{running.url}/ready").status_code == 200
        running.until_idle()
        deadline = time.monotonic() + 10
        while not _within(_held(running), before) and time.monotonic() < deadline:
            running.until_idle()
        assert _within(_held(running), before)


def _leave(running: Server, chance: random.Random) -> None:
    """Ask, read something or nothing, and close; half of the time without a goodbye (RST)."""
    path, body = chance.choice(ROUTES)
    content = json.dumps(body | ENDLESS | {"stream": chance.random() < 0.5}).encode()
    head = (
        f"POST {path} HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: {len(content)}\r\n\r\n"
    )
    whole = head.encode() + content
    with socket.create_connection(("127.0.0.1", running.port)) as connection:
        # Some leave in the middle of their own request.
        connection.sendall(whole if chance.random() < 0.9 else whole[: chance.randrange(1, len(whole))])
        if chance.random() < 0.5:
            connection.settimeout(chance.choice([0.001, 0.01, 0.05]))
            with suppress(TimeoutError):
                connection.recv(chance.choice([1, 100, 5000]))
        if chance.random() < 0.5:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


def _held(running: Server) -> tuple[int, int]:
    """Descriptors and threads."""
    return running.descriptors(), len(list(Path(f"/proc/{running.process.pid}/task").iterdir()))


def _within(found: tuple[int, int], before: tuple[int, int]) -> bool:
    return found[0] <= before[0] and found[1] <= before[1]

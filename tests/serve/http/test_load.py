"""Load: refusals, limits of time, clients that leave, and the drain, with a model whose steps the test lets through."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from tests.serve.http.scripted import Call, Scene, scene

pytestmark = pytest.mark.anyio
LONG = "The weather in Paris is fine today, and the model answers with a call. " * 2
ROUTES: list[tuple[str, dict[str, Any]]] = [
    ("/v1/chat/completions", {"messages": [{"role": "user", "content": "Hello"}]}),
    ("/v1/completions", {"prompt": "Hello", "max_tokens": 40}),
    ("/generate", {"prompt": "Hello"}),
]


class Clock:
    """Time that stands still until it is moved."""

    now = 100.0

    def __call__(self) -> float:
        return self.now


def ask(one: Scene, route: int = 1, **fields: Any) -> Call:
    path, body = ROUTES[route]
    return one.call(path, body | {"ignore_eos": True} | fields)


async def running(one: Scene, count: int) -> None:
    """Until `count` answers have a slot."""
    async with asyncio.timeout(10):
        while one.desk.service.seated < count:
            await asyncio.sleep(0)


async def admitted(one: Scene, count: int) -> None:
    """Until `count` answers are admitted."""
    service = one.desk.service
    async with asyncio.timeout(10):
        while service.admitted < count:
            await asyncio.sleep(0)


def refused(call: Call, status: int, code: str) -> None:
    assert call.status == status, call.body
    assert json.loads(call.body)["error"]["code"] == code
    assert int(call.headers["retry-after"]) >= 1
    assert 0 < int(call.headers["retry-after-ms"]) <= 30_000


async def test_the_queue_holds_exactly_its_limit(folder: Path) -> None:
    async with scene(folder, batch=2, queue=3) as one:
        one.says(LONG)
        one.runtime.pause()
        calls = [ask(one, number % 3) for number in range(20)]
        await asyncio.wait([call.done for call in calls], return_when=asyncio.FIRST_COMPLETED)
        service = one.desk.service
        assert (service.admitted, service.running, service.waiting) == (5, 2, 3)
        one.runtime.go()
        await asyncio.gather(*(call.done for call in calls))
        assert sorted(call.status for call in calls) == [200] * 5 + [429] * 15
        for call in calls:
            if call.status == 429:
                refused(call, 429, "overloaded")
        assert [call.status for call in calls[:5]] == [200] * 5


async def test_answers_of_one_request_count_each(folder: Path) -> None:
    async with scene(folder, batch=2, queue=2) as one:
        one.says(LONG)
        one.runtime.pause()
        first = ask(one, n=3)
        await admitted(one, 3)
        second, third = ask(one, prompt=["a", "b"]), ask(one)
        await second.done
        refused(second, 429, "overloaded")
        one.runtime.go()
        await asyncio.gather(first.done, third.done)
        assert (first.status, third.status) == (200, 200)
        assert len(json.loads(first.body)["choices"]) == 3


async def test_prompt_tokens_are_bounded_too(folder: Path) -> None:
    async with scene(folder, batch=2, queue=50, queue_tokens=60) as one:
        one.says(LONG)
        one.runtime.pause()
        first, second = ask(one, prompt=[7] * 40), ask(one, prompt=[7] * 20)
        await admitted(one, 2)
        third = ask(one, prompt=[7])
        await third.done
        refused(third, 429, "overloaded")
        one.runtime.go()
        await asyncio.gather(first.done, second.done)
        alone = ask(one, prompt=[7] * 80)
        await alone.done
        assert alone.status == 200


async def test_a_wait_that_is_too_long_ends_with_429(folder: Path) -> None:
    clock = Clock()
    async with scene(folder, batch=1, clock=clock, queue_seconds=5, request_seconds=50) as one:
        one.says(LONG)
        one.runtime.pause()
        first = ask(one)
        await running(one, 1)
        clock.now += 2
        waiting = ask(one, stream=True)
        await admitted(one, 2)
        clock.now += 4
        one.runtime.go(1)
        await running(one, 1)
        assert not waiting.done.done()
        clock.now += 1.5
        one.runtime.go()
        await asyncio.gather(first.done, waiting.done)
        refused(waiting, 429, "overloaded")
        assert first.status == 200


@pytest.mark.parametrize("route", [0, 1, 2])
@pytest.mark.parametrize("stream", [False, True])
async def test_time_that_is_up_ends_with_length_and_says_so(folder: Path, route: int, stream: bool) -> None:
    clock = Clock()
    async with scene(folder, clock=clock, request_seconds=50) as one:
        one.says(LONG)
        one.runtime.pause()
        call = ask(one, route, stream=stream)
        await running(one, 1)
        one.runtime.wait(1)
        clock.now += 51
        one.runtime.go()
        await call.done
        assert call.status == 200
        if stream:
            chunks = [json.loads(line[6:]) for line in call.body.decode().split("\n\n") if line.startswith("data: {")]
            ending = chunks[-1]
        else:
            ending = json.loads(call.body)
        ending = ending if route == 2 else ending["choices"][0]
        assert (ending["finish_reason"], ending["finish_detail"]) == ("length", "timeout")


@pytest.mark.parametrize("route", [0, 1, 2])
@pytest.mark.parametrize("stream", [False, True])
async def test_a_client_that_leaves_frees_its_slot_within_a_step(folder: Path, route: int, stream: bool) -> None:
    async with scene(folder, batch=1) as one:
        one.says(LONG)
        one.runtime.pause()
        call = ask(one, route, stream=stream)
        one.runtime.go(3)
        await running(one, 1)
        await asyncio.to_thread(one.runtime.wait, 4)
        call.leave()
        await call.done
        one.runtime.go(1)  # the step that was under way
        await one.idle()
        assert one.runtime.steps == 4
        one.runtime.go()
        assert (await one.complete(max_tokens=1)).status_code == 200


@pytest.mark.parametrize("stream", [False, True])
async def test_a_client_that_leaves_the_queue_never_runs(folder: Path, stream: bool) -> None:
    async with scene(folder, batch=1) as one:
        one.says(LONG)
        one.runtime.pause()
        first = ask(one, max_tokens=3)
        await running(one, 1)
        second = ask(one, stream=stream)
        await admitted(one, 2)
        second.leave()
        await second.done
        one.runtime.go()
        await first.done
        await one.idle()
        assert one.runtime.steps == 3
        assert 'neff_foundry_request_success_total{finished_reason="cancelled"} 1.0' in await _metrics(one)


async def test_a_drain_lets_the_running_finish_and_refuses_the_queued(folder: Path) -> None:
    async with scene(folder, batch=2) as one:
        one.says(LONG)
        one.runtime.pause()
        calls = [ask(one, stream=True), ask(one, n=2)]
        await admitted(one, 3)
        one.runtime.go(1)  # the second one's slot may be given after the first one's first step
        await running(one, 2)
        queued = ask(one)
        await admitted(one, 4)
        one.desk.service.drain()
        assert (await one.client.get("/ready")).status_code == 503
        assert (await one.client.get("/health")).json() == {"status": "ok", "state": "draining"}
        late = ask(one)
        await late.done
        refused(late, 503, "draining")
        assert not one.desk.service.drained.is_set()
        one.runtime.go()
        await queued.done
        refused(queued, 503, "draining")
        await asyncio.gather(*(call.done for call in calls))
        assert [call.status for call in calls] == [200, 200]
        assert len(json.loads(calls[1].body)["choices"]) == 2
        assert calls[0].body.endswith(b"data: [DONE]\n\n")
        await asyncio.wait_for(one.desk.service.drained.wait(), 10)
        assert "neff_foundry_draining 1.0" in await _metrics(one)


async def test_a_drain_that_takes_too_long_is_cut(folder: Path) -> None:
    async with scene(folder, batch=1) as one:
        one.says(LONG)
        one.runtime.pause()
        call = ask(one, n=2)
        await running(one, 1)
        one.desk.service.drain()
        one.desk.service.cut()
        one.runtime.go()
        await call.done
        choices = json.loads(call.body)["choices"]
        assert [choice["finish_detail"] for choice in choices] == ["timeout"] * 2


async def test_nobody_overtakes(folder: Path) -> None:
    async with scene(folder, batch=2) as one:
        seen: list[int] = []

        def answer(prompt: list[int]) -> list[int]:
            if prompt[0] not in seen:
                seen.append(prompt[0])
            return [5] * (20 - prompt[0] % 7)

        one.runtime.answer = answer
        one.runtime.pause()
        calls = []
        for number in range(12):
            calls.append(
                one.call("/v1/completions", {"prompt": [10 + number] * (1 + 7 * number % 20), "temperature": 0})
            )
            await admitted(one, number + 1)
        one.runtime.go()
        await asyncio.gather(*(call.done for call in calls))
        assert seen == list(range(10, 22))


async def test_many_random_leavers_leave_nothing_behind(folder: Path) -> None:
    async with scene(folder, batch=4, queue=40) as one:
        one.says(LONG)
        before = len(asyncio.all_tasks())
        for round_ in range(20):
            calls = [ask(one, number % 3, stream=bool(number % 2)) for number in range(10)]
            for number, call in enumerate(calls):
                for _ in range((number * 7 + round_) % 13):
                    await asyncio.sleep(0)
                call.leave()
            await asyncio.gather(*(call.done for call in calls))
        await one.idle()
        await asyncio.sleep(0)
        assert len(asyncio.all_tasks()) == before
        assert (await one.complete(max_tokens=2)).status_code == 200


async def _metrics(one: Scene) -> str:
    return (await one.client.get("/metrics")).text

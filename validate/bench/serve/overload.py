"""Phase `overload`: ten times the load that the server can take, in an open loop that waits for nobody."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any

from validate.bench.figures import percentile
from validate.bench.serve.decode import Ids, asking
from validate.bench.serve.served import Served, parse_metrics
from validate.bench.serve.wire import Reply, get, post

TIMES = 10
"""Offered load over capacity."""
LOOK = 0.1
"""Seconds between two looks at the queue."""
_WAITING, _RUNNING = "num_requests_waiting", "num_requests_running"
RETRY = ("retry-after", "retry-after-ms")


async def capacity(url: str, prompts: Callable[[], Ids], streams: int, new: int, seconds: float) -> float:
    """Answers a second of `streams` clients that each ask again at once."""
    until = time.perf_counter() + seconds

    async def client() -> int:
        done = 0
        while time.perf_counter() < until:
            reply = await post(f"{url}/v1/completions", asking(prompts(), new))
            done += reply.status == 200
        return done

    began = time.perf_counter()
    done = sum(await asyncio.gather(*(client() for _ in range(streams))))
    return done / (time.perf_counter() - began)


async def offer(
    url: str, prompts: Callable[[], Ids], rate: float, new: int, seconds: float
) -> tuple[list[Reply | str], list[Mapping[str, float]]]:
    """`rate` requests a second, every other one a stream; the replies, or how one broke, and what /metrics said."""
    began, replies, looks = time.perf_counter(), list[asyncio.Task[Reply | str]](), list[Mapping[str, float]]()
    watch = asyncio.create_task(_watch(url, looks))
    for number in range(round(rate * seconds)):
        await asyncio.sleep(max(0.0, began + number / rate - time.perf_counter()))
        payload = asking(prompts(), new, stream=bool(number % 2))
        replies.append(asyncio.create_task(_one(f"{url}/v1/completions", payload)))
    made = await asyncio.gather(*replies)
    watch.cancel()
    with suppress(asyncio.CancelledError):
        await watch
    return made, looks


def judged(
    replies: Sequence[Reply | str], looks: Sequence[Mapping[str, float]], slots: int, queue: int
) -> dict[str, Any]:
    """What the replies show: refusals, answers, and the longest queue beside its limit.

    The queue is what was admitted beyond the slots. The gauge of those that wait may be longer for the moment in which
    slots are free and not yet given again; `waiting_most` is that one.
    """
    whole = [reply for reply in replies if isinstance(reply, Reply)]
    refused = [reply for reply in whole if reply.status != 200]
    admitted = [reply for reply in whole if reply.status == 200]
    return {
        "offered": len(replies),
        "broken": dict(Counter(reply for reply in replies if isinstance(reply, str))),
        "broken_count": len(replies) - len(whole),
        "statuses": dict(sorted(Counter(str(reply.status) for reply in whole).items())),
        "refused": len(refused),
        "refused_otherwise": sum(not _proper(reply) for reply in refused),
        "refusal_ms": {
            f"p{share}": round(1e3 * percentile([reply.head_s for reply in refused], share / 100), 3)
            for share in ((50, 99) if refused else ())
        },
        "admitted": len(admitted),
        "completed": sum(_complete(reply) for reply in admitted),
        "queue_most": max((max(0, look[_WAITING] + look[_RUNNING] - slots) for look in looks), default=0),
        "queue_limit": queue,
        "waiting_most": max((look[_WAITING] for look in looks), default=0),
        "looks": len(looks),
    }


def overload(
    server: Served, prompts: Callable[[], Ids], slots: int, queue: int, new: int, seconds: float
) -> dict[str, Any]:
    """Find what the server can take, offer ten times as much for `seconds`, and judge."""
    probe = min(5.0, seconds)
    asyncio.run(capacity(server.url, prompts, slots + queue, new, 1.0))
    able = asyncio.run(capacity(server.url, prompts, slots, new, probe))
    # What grows once under any full queue is no growth: buffers of connections, the arenas of the allocator.
    asyncio.run(offer(server.url, prompts, TIMES * able, new, probe))
    ended, rss = _finished(server.metrics()), server.rss_mb()
    replies, looks = asyncio.run(offer(server.url, prompts, TIMES * able, new, seconds))
    found = judged(replies, looks, slots, queue)
    return found | {
        "seconds": seconds,
        "capacity_per_s": round(able, 3),
        "offered_per_s": round(TIMES * able, 3),
        "finished_by_metrics": _finished(server.metrics()) - ended,
        "rss_mb": round(rss, 2),
        "rss_growth_mb": round(server.rss_mb() - rss, 2),
    }


def _finished(metrics: Mapping[str, float]) -> float:
    reasons = ("stop", "length")
    return sum(metrics.get(f'request_success_total{{finished_reason="{reason}"}}', 0.0) for reason in reasons)


def _proper(reply: Reply) -> bool:
    """Whether a refusal is what a client can act on."""
    return reply.status == 429 and all(reply.headers.get(name, "").isdecimal() for name in RETRY)


def _complete(reply: Reply) -> bool:
    """Whether an answer came to its end, with its finish_reason."""
    try:
        stream = "event-stream" in reply.headers["content-type"]
        last = reply.events()[-1][1] if stream else reply.json()
        return bool(last["choices"][0]["finish_reason"] == "length" and (reply.ended or not stream))
    except (ValueError, LookupError):
        return False


async def _one(url: str, payload: Mapping[str, Any]) -> Reply | str:
    try:
        return await post(url, payload)
    except (OSError, EOFError) as error:
        return type(error).__name__


async def _watch(url: str, looks: list[Mapping[str, float]]) -> None:
    while True:
        looks.append(parse_metrics((await get(f"{url}/metrics")).body.decode()))
        await asyncio.sleep(LOOK)

"""Phase `decode`: the same prompts through the engine alone and through HTTP, in turn, in one run.

A stream's chunks are no tokens: text that may still change waits for the next token. So each prompt is asked once, off
the record, with the usage in every chunk, which says how many tokens were out at each of its chunks; greedy answers
repeat, and a stream whose chunks are not those of its rehearsal is an error.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from statistics import median
from typing import Any

from serve.engine import Engine
from validate.bench.figures import percentile
from validate.bench.serve.wire import Reply, post

Ids = list[int]
Marks = list[tuple[float, int]]
"""When how many tokens were out: seconds since the request and a count, growing."""


@dataclass
class Side:
    """What one side took, over all rounds."""

    rates: list[float] = field(default_factory=list)
    steps: list[float] = field(default_factory=list)
    firsts: list[float] = field(default_factory=list)

    def add(self, streams: Sequence[Marks]) -> None:
        """The streams of one round, which began together."""
        self.rates.append(rate(streams))
        self.steps += [step for marks in streams for step in steps(marks)]
        self.firsts += [marks[0][0] for marks in streams]

    def told(self) -> dict[str, Any]:
        """For the summary; times in milliseconds."""
        return {
            "tok_s": round(median(self.rates), 2),
            "ttft_ms": round(1e3 * median(self.firsts), 3),
            "step_ms": {f"p{share}": round(1e3 * percentile(self.steps, share / 100), 4) for share in (50, 95, 99)},
            "steps": len(self.steps),
        }


def rate(streams: Sequence[Marks]) -> float:
    """Tokens a second of all streams, from each one's first mark to its last.

    Where streams queue for slots, their own times overlap: the window is that of all of them.
    """
    tokens = sum(marks[-1][1] - marks[0][1] for marks in streams)
    return tokens / (max(marks[-1][0] for marks in streams) - min(marks[0][0] for marks in streams))


def steps(marks: Marks) -> list[float]:
    """Seconds between marks that are one token apart."""
    return [after - before for (before, made), (after, then) in pairwise(marks) if then == made + 1]


def alone(engine: Engine, prompts: Sequence[Ids], new: int) -> list[Marks]:
    """The engine's marks: all prompts at once, greedy, through whatever slots there are."""
    began = time.perf_counter()
    requests = [engine.submit(ids, max_new=new, stop_ids=frozenset()) for ids in prompts]
    found: list[Marks] = [[] for _ in requests]
    while engine.step():
        now = time.perf_counter() - began
        for request, marks in zip(requests, found, strict=True):
            if request.count > (marks[-1][1] if marks else 0):
                marks.append((now, request.count))
    return found


def asking(ids: Ids, new: int, **more: Any) -> dict[str, Any]:
    """The request that gives what `alone` gives."""
    return {"prompt": ids, "max_tokens": new, "temperature": 0, "ignore_eos": True, "stream": True} | more


async def rehearse(url: str, prompts: Sequence[Ids], new: int) -> list[list[int]]:
    """How many tokens are out at each chunk of each answer; the last chunk is the finish."""
    usage = {"stream_options": {"continuous_usage_stats": True}}
    replies = [await post(f"{url}/v1/completions", asking(ids, new, **usage)) for ids in prompts]
    return [[event["usage"]["completion_tokens"] for _, event in _events(reply)] for reply in replies]


async def through_http(url: str, prompts: Sequence[Ids], new: int, counts: Sequence[Sequence[int]]) -> list[Marks]:
    """The client's marks for prompts that were rehearsed."""
    replies = await asyncio.gather(*(post(f"{url}/v1/completions", asking(ids, new)) for ids in prompts))
    return [marks(reply, made) for reply, made in zip(replies, counts, strict=True)]


def marks(reply: Reply, counts: Sequence[int]) -> Marks:
    """A stream's marks, one for each count; ValueError when it is not the stream that was rehearsed."""
    events = _events(reply)
    if len(events) != len(counts):
        raise ValueError(f"a stream had {len(events)} chunks and {len(counts)} when it was rehearsed")
    found: Marks = []
    for (at, _), made in zip(events, counts, strict=True):
        if not found or made > found[-1][1]:
            found.append((at - reply.sent, made))
    return found


def compare(
    engine: Engine, url: str, prompts: Callable[[], Ids], streams: int, new: int, rounds: int
) -> dict[str, Any]:
    """Rounds of both sides in turn at `streams` prompts at once.

    `ratio` is the median over the rounds of HTTP's rate over the engine's, `added_ms` the difference of the
    percentiles of the time from token to token.
    """
    asked = [prompts() for _ in range(streams)]
    counts = asyncio.run(rehearse(url, asked, new))
    alone(engine, asked, new)
    asyncio.run(through_http(url, asked, new, counts))
    mine, theirs = Side(), Side()
    for _ in range(rounds):
        mine.add(alone(engine, asked, new))
        theirs.add(asyncio.run(through_http(url, asked, new, counts)))
    ratios = [one / other for one, other in zip(theirs.rates, mine.rates, strict=True)]
    added = {share: percentile(theirs.steps, share) - percentile(mine.steps, share) for share in (0.5, 0.99)}
    return {
        "streams": streams,
        "new_tokens": new,
        "rounds": rounds,
        "engine": mine.told(),
        "http": theirs.told(),
        "ratio": round(median(ratios), 4),
        "ratios": [round(ratio, 4) for ratio in ratios],
        "added_ms": {f"p{100 * share:.0f}": round(1e3 * value, 4) for share, value in added.items()},
    }


def _events(reply: Reply) -> list[tuple[float, Any]]:
    if reply.status != 200:
        raise ValueError(f"status {reply.status}: {reply.body[:300].decode(errors='replace')}")
    if not reply.ended:
        raise ValueError("a stream ended without [DONE]")
    return reply.events()

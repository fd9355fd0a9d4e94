"""Phase `beside`: the same chats, from the same checkpoint, through this server and through `transformers serve`."""

from __future__ import annotations

import asyncio
import importlib.util
import json
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

from ledger.errors import BadInput
from validate.bench.serve.served import free_port, served
from validate.bench.serve.textual import write_textual
from validate.bench.serve.wire import Reply, post

CLIENTS = 8
NEEDS = ("fastapi", "uvicorn", "accelerate")
"""What `transformers serve` imports beyond transformers itself."""
CHATS = (
    "Write a function that returns the number of items in a list.",
    "What is the weather like in the mountains in autumn?",
    "Explain why the sky is blue to a child.",
    "List three uses of a paper clip.",
    "Translate 'good morning' into French and German.",
    "Tell a short story about a lighthouse.",
    "How do I sort a dictionary by its values?",
    "Name the planets from the sun outwards.",
)


@dataclass
class Turns:
    """What one server took, over all rounds; times in seconds, rates in tokens per second."""

    url: str
    model: str
    firsts: list[float] = field(default_factory=list)
    rates: list[float] = field(default_factory=list)
    totals: list[float] = field(default_factory=list)

    async def one(self, chat: str, new: int) -> Reply:
        """One streamed chat."""
        body = {
            "model": self.model,
            "messages": [{"role": "user", "content": chat}],
            "max_tokens": new,
            "temperature": 0,
            "stream": True,
            "stream_options": {"include_usage": True},
        }
        reply = await post(f"{self.url}/v1/chat/completions", body)
        if reply.status != 200:
            raise ValueError(f"status {reply.status}: {reply.body[:300].decode(errors='replace')}")
        return reply

    async def turn(self, new: int) -> None:
        """Every chat alone, then all of them at once."""
        for chat in CHATS:
            first, seconds, tokens = told(await self.one(chat, new))
            self.firsts.append(first)
            if seconds > first:
                self.rates.append((tokens - 1) / (seconds - first))
        began = time.perf_counter()
        replies = await asyncio.gather(*(self.one(CHATS[number % len(CHATS)], new) for number in range(CLIENTS)))
        self.totals.append(sum(told(reply)[2] for reply in replies) / (time.perf_counter() - began))

    def cell(self) -> dict[str, float]:
        """Medians, for the summary."""
        return {
            "ttft_ms": round(1e3 * median(self.firsts), 3),
            "tok_s": round(median(self.rates), 2),
            f"tok_s_{CLIENTS}_clients": round(median(self.totals), 2),
        }


def told(reply: Reply) -> tuple[float, float, int]:
    """Seconds to the first content and to the last, and the tokens that the server counted, whatever they said."""
    events = reply.events()
    spoken = [at for at, event in events if any(choice["delta"].get("content") for choice in event["choices"])]
    if not spoken:
        raise ValueError("an answer has no content")
    tokens = next(event["usage"] for _, event in reversed(events) if event.get("usage"))["completion_tokens"]
    return spoken[0] - reply.sent, spoken[-1] - reply.sent, tokens


def beside(
    url: str, model: str, checkpoint: Mapping[str, Path] | None, new: int, rounds: int
) -> dict[str, dict[str, Any]]:
    """Both servers' figures, in turn; `transformers_serve` has a `reason` where there are none."""
    ours = Turns(url, model)
    with tempfile.TemporaryDirectory() as name:
        try:
            with _transformers(checkpoint, Path(name)) as theirs:
                _rounds([ours, theirs], new, rounds)
                return {"ours": ours.cell(), "transformers_serve": theirs.cell()}
        except (BadInput, ValueError, OSError, EOFError) as error:
            reason = str(error) or type(error).__name__
    alone = Turns(url, model)
    _rounds([alone], new, rounds)
    return {"ours": alone.cell(), "transformers_serve": {"reason": reason}}


def _rounds(servers: Sequence[Turns], new: int, rounds: int) -> None:
    for server in servers:
        asyncio.run(server.one(CHATS[0], new))  # to warm up
    for _ in range(rounds):
        for server in servers:
            asyncio.run(server.turn(new))


@contextmanager
def _transformers(checkpoint: Mapping[str, Path] | None, folder: Path) -> Iterator[Turns]:
    """`transformers serve` on the text model of `checkpoint`; BadInput or ValueError say why it cannot run."""
    if checkpoint is None:
        raise BadInput("no checkpoint was given (--fetch)")
    missing = [name for name in NEEDS if importlib.util.find_spec(name) is None]
    if missing:
        raise BadInput(f"transformers serve needs {', '.join(missing)}, which is not installed here")
    write_textual(checkpoint, folder)
    port = free_port()
    command = [sys.executable, "-c", _COMMAND, "serve", str(folder), "--device", "cpu", "--dtype", "float32"]
    offline = {"HF_HUB_OFFLINE": "1", "USE_TORCH_XLA": "0"}
    with served([*command, "--port", str(port)], address=f"http://localhost:{port}", environment=offline) as one:
        yield Turns(one.url, str(folder))


_COMMAND = "import sys; from transformers.cli.transformers import main; sys.argv[0] = 'transformers'; sys.exit(main())"


def model_name(url: str) -> str:
    """The name of the one model that a server has."""
    with urllib.request.urlopen(f"{url}/v1/models", timeout=30) as response:
        return str(json.load(response)["data"][0]["id"])

"""A model that says what a test wants, token by token, and a server over it that takes milliseconds to start."""

from __future__ import annotations

import asyncio
import json
import shutil
import threading
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import numpy.typing as npt
from fastapi import FastAPI
from safetensors.numpy import save_file
from starlette.types import ASGIApp, Message

import recipes.tiny
from recipes.tiny.tokenizer import LOW_SPECIALS, MEDIA_SPECIALS, train_tokenizer, write_tokenizer
from serve.engine import Engine
from serve.http.app import create_app
from serve.http.desk import Desk
from serve.http.metrics import Metrics
from serve.http.opening import Opened, Say
from serve.http.settings import Settings
from serve.manifest import GraphName, Manifest, Model
from serve.service.service import Service
from serve.tables import PER_LAYER, TOKENS, HostTables
from serve.text.tokenizer import Text
from tests.serve import fakes
from tests.serve.fakes import LAYERS, PLE, FakeRuntime

SIZE = 700
KV_MAX, BUCKET = 128, 16
STOP = 106  # <turn|>
SENTENCES = (
    "The weather in Paris is fine today, and the model answers with a call.",
    "Return the number of items in the list, or raise ValueError if the argument is not valid.",
    "call: thought user model name arguments location unit celsius",
)
GENERATION = {"do_sample": True, "temperature": 1.0, "top_k": 64, "top_p": 0.95, "eos_token_id": [1, 106, 50]}
Answer = Callable[[list[int]], list[int]]


def write_tokens(folder: Path, size: int) -> None:
    """A tokenizer of `size` tokens with Gemma 4's special ones, and its chat template."""
    specials = LOW_SPECIALS | {token: size - 10 + place for place, token in enumerate(MEDIA_SPECIALS)}
    write_tokenizer(train_tokenizer(SENTENCES, vocab_size=size, specials=specials), folder)
    shutil.copy(Path(recipes.tiny.__file__).parent / "chat_template.jinja", folder)


def write_text(folder: Path) -> None:
    """The text files of a small checkpoint, and tables in which the embedding of a token is its id."""
    write_tokens(folder, SIZE)
    (folder / "generation_config.json").write_text(json.dumps(GENERATION))
    ids = np.arange(SIZE, dtype=np.float32)[:, None]
    save_file({TOKENS: ids, PER_LAYER: ids.repeat(LAYERS * PLE, axis=1)}, folder / "tables")


def read_text(folder: Path) -> Text:
    names = ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja", "generation_config.json")
    return Text.from_files(*(folder / name for name in names))


class Scripted(FakeRuntime):
    """Each slot gives the answer to the prompt that it was filled with, then the stop token for ever.

    The likeliest token has 0.9 of the probability, id 9 has 0.05, the others share the rest. Steps wait while paused.
    """

    def __init__(self, made_for: Manifest, answer: Answer) -> None:
        super().__init__(made_for)
        self.answer = answer
        self.steps = 0
        self.fails = False
        self._prompts: dict[int, list[int]] = {}
        self._going = threading.Condition()
        self._allowed: int | None = None

    def step(self, graph: GraphName) -> npt.NDArray[np.float32]:
        with self._going:
            self.steps += 1
            self._going.notify_all()
            self._going.wait_for(lambda: self._allowed is None or self._allowed > 0)
            if self._allowed is not None:
                self._allowed -= 1
        if self.fails:
            raise RuntimeError("device lost")
        return self._prefill() if graph == "prefill" else self._decode()

    def pause(self) -> None:
        """The next step waits."""
        with self._going:
            self._allowed = 0

    def go(self, steps: int | None = None) -> None:
        """Let `steps` steps through, or all from now on."""
        with self._going:
            self._allowed = steps
            self._going.notify_all()

    def wait(self, steps: int) -> None:
        """Until `steps` steps have begun."""
        with self._going:
            assert self._going.wait_for(lambda: self.steps >= steps, 10)

    def _prefill(self) -> npt.NDArray[np.float32]:
        inputs = self.inputs("prefill")
        slot = int(inputs["slot"].argmax()) if "slot" in inputs else 0
        real = int(inputs["last"].argmax()) + 1
        start = int(inputs["position_ids"][0, 0])
        chunk = inputs["inputs_embeds"][0, :real, 0].astype(int).tolist()
        self._prompts[slot] = self._prompts.get(slot, [])[:start] + chunk
        return self._logits([self._token(slot, start + real - 1)])

    def _decode(self) -> npt.NDArray[np.float32]:
        inputs = self.inputs("decode")
        tokens = []
        for slot, position in enumerate(inputs["position_ids"][:, 0].tolist()):
            written = bool(inputs["full_select"][slot].any())
            if written and position == 0:
                self._prompts[slot] = [int(inputs["inputs_embeds"][slot, 0, 0])]
            tokens.append(self._token(slot, position) if written else 0)
        return self._logits(tokens)

    def _token(self, slot: int, position: int) -> int:
        prompt = self._prompts[slot]
        answer = self.answer(prompt)
        place = position - len(prompt) + 1
        return answer[place] if 0 <= place < len(answer) else STOP

    def _logits(self, tokens: list[int]) -> npt.NDArray[np.float32]:
        logits = np.full((len(tokens), SIZE), np.log(0.05 / (SIZE - 2)), np.float32)
        logits[:, 9] = np.log(0.05)
        logits[np.arange(len(tokens)), tokens] = np.log(0.9)
        return logits


def scripted_engine(folder: Path, answer: Answer, batch: int) -> tuple[Engine, Scripted]:
    made_for = fakes.manifest(KV_MAX, BUCKET, KV_MAX, KV_MAX, batch=batch, stop=(1, 106, 50))
    model = Model(hidden_size=1, layers=LAYERS, ple_width=PLE, vocab_size=SIZE, sliding_window=KV_MAX)
    made_for = made_for.model_copy(update={"model": model})
    runtime = Scripted(made_for, answer)
    return Engine(made_for, runtime, HostTables(folder / "tables", model, slim=True)), runtime


@dataclass
class Scene:
    """A server without a socket, its model and its client."""

    desk: Desk
    app: FastAPI
    runtime: Scripted
    text: Text
    client: httpx.AsyncClient

    def says(self, text: str) -> None:
        """What the model answers to everything from now on."""
        ids = self.text.encode(text, add_special=False)
        self.runtime.answer = lambda _prompt: ids

    def call(self, path: str, body: Any) -> Call:
        return Call(self.app, path, body)

    async def idle(self) -> None:
        """Until nothing runs or waits."""
        async with asyncio.timeout(10):
            while self.desk.service.admitted:
                await asyncio.sleep(0)

    async def chat(self, content: str = "Hello", **fields: Any) -> httpx.Response:
        body = {"messages": [{"role": "user", "content": content}], "temperature": 0} | fields
        return await self.client.post("/v1/chat/completions", json=body)

    async def complete(self, prompt: Any = "Hello", **fields: Any) -> httpx.Response:
        return await self.client.post("/v1/completions", json={"prompt": prompt, "temperature": 0} | fields)


class Call:
    """A request by hand, whose client sees each piece as it comes and may leave at any time."""

    def __init__(self, app: ASGIApp, path: str, body: Any) -> None:
        self.status = 0
        self.headers: dict[str, str] = {}
        self.body = b""
        self._request: list[Message] = [{"type": "http.request", "body": json.dumps(body).encode()}]
        self._left = asyncio.Event()
        self._news = asyncio.Event()
        headers = [(b"content-type", b"application/json")]
        scope = {"type": "http", "method": "POST", "path": path, "headers": headers, "query_string": b""}
        self.done: asyncio.Task[None] = asyncio.create_task(app(scope, self._receive, self._send))  # type: ignore[arg-type]

    def leave(self) -> None:
        """Close the connection."""
        self._left.set()

    async def until(self, condition: Callable[[], bool]) -> None:
        """Wait for a piece with which the condition holds."""
        async with asyncio.timeout(10):
            while not condition():
                self._news.clear()
                await self._news.wait()

    async def _receive(self) -> Message:
        if self._request:
            return self._request.pop()
        await self._left.wait()
        return {"type": "http.disconnect"}

    async def _send(self, message: Message) -> None:
        if self._left.is_set():
            raise OSError("the client has left")
        if message["type"] == "http.response.start":
            self.status = message["status"]
            self.headers = {name.decode(): value.decode() for name, value in message["headers"]}
        self.body += message.get("body", b"")
        self._news.set()


class Source:
    """What `serve.http.server` opens in tests."""

    def __init__(self, folder: Path, answer: Answer, batch: int) -> None:
        self.folder, self.batch, self.answer = folder, batch, answer
        self.runtime: Scripted

    def load(self, say: Say) -> Opened:
        say("scripted")
        engine, self.runtime = scripted_engine(self.folder, self.answer, self.batch)
        return Opened(engine, read_text(self.folder), {"checkpoint": "fake", "variant": "v", "digest": "sha256:0"})


@asynccontextmanager
async def scene(
    folder: Path, batch: int = 2, clock: Callable[[], float] = time.monotonic, **settings: Any
) -> AsyncIterator[Scene]:
    """A scene that is ready; at its end every place must have been given back."""
    metrics = Metrics()
    made = Settings(Path("artifact"), **settings)
    service = Service(made.limits, metrics, clock)
    desk = Desk(made, service, metrics)
    app = create_app(desk)
    source = Source(folder, lambda _prompt: [], batch)
    opened: list[Opened] = []

    def load() -> Engine:
        opened.append(source.load(lambda _words: None))
        return opened[0].engine

    service.start(load)
    await service.loaded
    desk.opened(opened[0].text, opened[0].facts)
    transport = httpx.ASGITransport(app, raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url="http://test") as client:
        try:
            yield Scene(desk, app, source.runtime, opened[0].text, client)
        finally:
            source.runtime.go()
            service.stop()


def events(response: httpx.Response) -> list[Any]:
    """The chunks of a stream, the last of which must be [DONE]."""
    assert response.status_code == 200
    assert response.headers["content-type"].startswith("text/event-stream")
    lines = [line for line in response.text.split("\n\n") if line]
    assert all(line.startswith("data: ") for line in lines)
    assert lines[-1] == "data: [DONE]"
    return [json.loads(line.removeprefix("data: ")) for line in lines[:-1]]

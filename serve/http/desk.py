"""What the completion routes share: from an admitted request to the events of its answers, whoever leaves first.

The order is that of the contract: the request is valid before it is admitted, admitted before anything is tokenised,
and has its first slot before the first byte goes out, so that every refusal can still be a status.
"""

from __future__ import annotations

import asyncio
import dataclasses
import math
import secrets
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, TypeVar

from fastapi import Request
from starlette.responses import Response
from starlette.types import Receive

from serve.errors import ServeError
from serve.http.errors import ApiError, ClientGone
from serve.http.logprobs import Logprobs
from serve.http.metrics import Metrics
from serve.http.schemas_common import SamplingFields, Usage
from serve.http.settings import Settings
from serve.http.sse import EventStream
from serve.http.voice import Delta, Voice
from serve.sampling import Sampling
from serve.service.job import Ask, Job
from serve.service.service import Service
from serve.text.tokenizer import Text

T = TypeVar("T")
FRAME = 64  # tokens that a chat template puts around a message, at most
_INLINE = 4096  # bytes of text that are tokenised in less time than a thread takes to wake up


class Desk:
    """The parts of a running server; `text` is there once the service is ready."""

    def __init__(self, settings: Settings, service: Service, metrics: Metrics) -> None:
        self.settings, self.service, self.metrics = settings, service, metrics
        self.text: Text
        self.names: Logprobs
        self._longest = 1  # characters of the longest token
        self.facts: dict[str, str] = {}
        self.created = int(time.time())
        self._tokenising = ThreadPoolExecutor(1, thread_name_prefix="tokenise")

    def opened(self, text: Text, facts: dict[str, str]) -> None:
        """Take what was loaded: the text side, and what the status page and the metrics say of the artifact."""
        self.text, self.names, self.facts = text, Logprobs(text), facts
        engine = self.service.engine
        assert engine is not None
        self._longest = max(len(text.pieces.text(id_) or "") for id_ in range(engine.manifest.model.vocab_size))
        self.metrics.describe(facts)

    @property
    def model(self) -> str:
        """The name that requests give."""
        return self.settings.model_name or self.facts.get("checkpoint", "")

    def check_model(self, name: str | None) -> None:
        """ApiError when a request names another model."""
        self.service.check()
        if name is not None and name != self.model:
            message = f"the model {name[:80]!r} does not exist; {self.model!r} is accepted"
            raise ApiError(404, message, param="model", code="model_not_found")

    def admit(self, request: Request, answers: int, lengths: Sequence[int]) -> Job:
        """A place for `answers` to each of some prompts of at most `lengths` tokens, until the client leaves."""
        most = self.service.check().kv_max
        job = self.service.admit(answers * len(lengths), answers * sum(min(length, most) for length in lengths))
        watch = asyncio.create_task(_watch(request.receive, job))
        job.on_close = watch.cancel
        return job

    async def tokenised(self, work: Callable[[], T], length: int) -> T:
        """The result of `work` on `length` bytes of text, off the event loop where that takes long."""
        if length <= _INLINE:
            return work()
        return await asyncio.get_running_loop().run_in_executor(self._tokenising, work)

    def encode(self, text: str, param: str, *, add_special: bool) -> list[int]:
        """Token ids of `text`; ApiError naming `param`, without any work, where it has more than fit for certain."""
        kv_max, least = self.service.check().kv_max, math.ceil(len(text) / self._longest)
        if least > kv_max:
            raise _too_long(f"at least {least}", kv_max, param)
        return self.text.encode(text, add_special=add_special)

    def room(self, ids: Sequence[int], wanted: int | None, param: str, limit: str = "max_tokens") -> int:
        """How many tokens an answer may have; ApiError naming `param` or `limit` when prompt or answer do not fit."""
        kv_max = self.service.check().kv_max
        if not ids:
            raise ApiError(400, f"{param} is empty; a prompt of at least one token is accepted", param=param)
        if len(ids) + min(1, wanted if wanted is not None else 1) > kv_max:
            raise _too_long(str(len(ids)), kv_max, param)
        if wanted is None:
            return kv_max - len(ids)
        if len(ids) + wanted > kv_max:
            message = (
                f"{limit} is {wanted}; beside a prompt of {len(ids)} tokens up to {kv_max - len(ids)} are accepted"
            )
            raise ApiError(400, message, param=limit, code="context_length_exceeded")
        return wanted

    def sampling(self, fields: SamplingFields) -> Sampling:
        """What a request says, else what the checkpoint says; ApiError for ids of another vocabulary."""
        defaults, vocabulary = self.text.defaults, self.service.check().manifest.model.vocab_size
        bias = tuple((int(token), value) for token, value in (fields.logit_bias or {}).items())
        for token, _ in bias:
            if token >= vocabulary:
                message = f"logit_bias: found token id {token}; 0 to {vocabulary - 1} are accepted"
                raise ApiError(400, message, param="logit_bias", code="invalid_value")
        return Sampling(
            temperature=_or(fields.temperature, defaults.temperature),
            top_k=max(0, _or(fields.top_k, defaults.top_k)),
            top_p=_or(fields.top_p, defaults.top_p),
            min_p=_or(fields.min_p, 0.0),
            seed=fields.seed,
            repetition_penalty=_or(fields.repetition_penalty, 1.0),
            presence_penalty=_or(fields.presence_penalty, 0.0),
            frequency_penalty=_or(fields.frequency_penalty, 0.0),
            logit_bias=bias,
        )

    def log(self, request: Request, job: Job, **more: Any) -> None:
        """Add facts to the request's line in the log; text only where the settings ask for it."""
        facts = {"prompt_tokens": sum(len(answer.ask.ids) for answer in job.answers), "answers": len(job.answers)}
        request.scope["state"]["log"] = facts | (more if self.settings.log_text else {})

    def stream(self, job: Job, events: AsyncIterator[bytes]) -> Response:
        """Answer with events; the job is closed when the last one is out."""
        return EventStream(events, job.close, self.settings.request_seconds)


def copies(ask: Ask, count: int) -> list[Ask]:
    """`count` asks that differ in the seed alone, where there is one; the first is the one of `count` 1."""
    seed = ask.sampling.seed
    if count == 1 or not isinstance(seed, int):
        return [ask] * count
    samplings = [dataclasses.replace(ask.sampling, seed=(seed, number)) for number in range(count)]
    return [dataclasses.replace(ask, sampling=sampling) for sampling in samplings]


async def spoken(job: Job, voices: Sequence[Voice]) -> AsyncIterator[tuple[int, Delta]]:
    """What each answer adds, as it comes, until all are over; then the job is closed. ClientGone when the client is."""
    left = len(voices)
    try:
        while left:
            events = await job.events()
            if not events:
                raise ClientGone
            for event in events:
                index = event.answer.index
                voice = voices[index]
                if voice.finish is not None:
                    continue
                delta = voice.take(event)
                if voice.finish is not None:
                    left -= 1
                    if voice.stopped:
                        job.stop(index, voice.finish)
                yield index, delta
    finally:
        job.close()


@contextmanager
def leaving(job: Job) -> Iterator[None]:
    """Close the job when the block fails; else whoever reads its events does."""
    try:
        yield
    except BaseException:
        job.close()
        raise


def usage(job: Job, voices: Sequence[Voice], repeats: int) -> Usage:
    """Tokens of a request with `repeats` answers a prompt: each prompt counts once."""
    prompt = sum(len(answer.ask.ids) for answer in job.answers[::repeats])
    completion = sum(voice.generated for voice in voices)
    return Usage(prompt_tokens=prompt, completion_tokens=completion, total_tokens=prompt + completion)


def new_id(kind: str) -> str:
    """An id that no other answer has."""
    return f"{kind}-{secrets.token_hex(12)}"


def client_text(error: ServeError, param: str) -> ApiError:
    """An error of the text side as one of the request."""
    return ApiError(400, str(error), param=param, code="invalid_value")


def size(text: str) -> int:
    """Bytes of a text, which are at least as many as its tokens."""
    return len(text.encode(errors="surrogatepass"))


def _too_long(tokens: str, kv_max: int, param: str) -> ApiError:
    message = f"the prompt has {tokens} tokens; this model's context is {kv_max}, prompt and answer together"
    return ApiError(400, message, param=param, code="context_length_exceeded")


def _or(value: Any, default: Any) -> Any:
    return default if value is None else value


async def _watch(receive: Receive, job: Job) -> None:
    """Close the job when the client leaves."""
    while (await receive())["type"] != "http.disconnect":
        pass
    job.close()

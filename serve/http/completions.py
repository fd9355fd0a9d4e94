"""`POST /v1/completions`: prompts as they are, with echo and log-probabilities for evaluation harnesses."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from typing import Any

from fastapi import APIRouter, Request
from starlette.responses import JSONResponse, Response

from serve.errors import ServeError
from serve.http.body import JsonRoute
from serve.http.desk import Desk, client_text, copies, leaving, new_id, size, spoken, usage
from serve.http.logprobs import CompletionTable
from serve.http.openapi import COMPLETION_ERRORS, desk_of, streamed
from serve.http.schemas_completions import Completion, CompletionRequest
from serve.http.sse import DONE, chunk
from serve.http.voice import Delta, Voice
from serve.service.job import Ask, Job

router = APIRouter(route_class=JsonRoute)
_DEFAULT_TOKENS = 16  # of OpenAI's API


@router.post(
    "/v1/completions",
    response_model=Completion,
    responses=COMPLETION_ERRORS | streamed("chunks of the OpenAI type text_completion"),
    summary="Continue prompts",
)
async def completions(request: Request, body: CompletionRequest) -> Response:
    """An answer, or a stream of chunks with `stream` true."""
    desk = desk_of(request)
    desk.check_model(body.model)
    prompts = body.prompts
    job = desk.admit(request, body.n or 1, [size(p) + 1 if isinstance(p, str) else len(p) for p in prompts])
    with leaving(job):
        reply = _Reply(desk, body, job, *await _begin(desk, request, body, job, prompts))
        return desk.stream(job, reply.events()) if body.stream else await reply.whole()


async def _begin(
    desk: Desk, request: Request, body: CompletionRequest, job: Job, prompts: list[str | list[int]]
) -> tuple[list[Voice], list[_Echo]]:
    """Tokenise, submit, and wait for a slot."""
    count, sampling = body.n or 1, desk.sampling(body)

    def tokenise() -> list[list[int]]:
        return [desk.encode(p, "prompt", add_special=True) if isinstance(p, str) else p for p in prompts]

    asks: list[Ask] = []
    try:
        for ids in await desk.tokenised(tokenise, sum(len(prompt) for prompt in prompts)):
            _check_ids(desk, ids)
            wanted = _DEFAULT_TOKENS if body.max_tokens is None else body.max_tokens
            ask = Ask(
                ids,
                desk.room(ids, wanted, "prompt"),
                sampling,
                stop_ids=frozenset() if body.ignore_eos else None,
                top_logprobs=body.logprobs,
                # Without an answer there is nothing to prefill for: the prompt then goes through the decode graph.
                top_scores=body.logprobs or 0 if body.echo and (wanted == 0 or body.logprobs is not None) else None,
            )
            asks += copies(ask, count)
        readers = [desk.text.completion(body.stops) for _ in asks]
    except ServeError as error:
        raise client_text(error, "prompt") from error
    job.submit(asks)
    desk.log(request, job, prompt=prompts)
    await job.begun()
    voices = [Voice(reader, desk.text.pieces.special, every_token=True) for reader in readers]
    echoes = [_Echo(desk, body, ask.ids, prompts[place // count]) for place, ask in enumerate(asks)]
    return voices, echoes


def _check_ids(desk: Desk, ids: list[int]) -> None:
    vocabulary = desk.service.check().manifest.model.vocab_size
    for id_ in ids:
        if id_ >= vocabulary:
            raise ServeError(f"the prompt holds token id {id_}; 0 to {vocabulary - 1} are accepted")


class _Reply:
    """The answers to one completion request, whole or in chunks."""

    def __init__(self, desk: Desk, body: CompletionRequest, job: Job, voices: list[Voice], echoes: list[_Echo]) -> None:
        self._body, self._job, self._voices, self._echoes = body, job, voices, echoes
        self._head = {
            "id": new_id("cmpl"),
            "object": "text_completion",
            "created": int(time.time()),
            "model": desk.model,
        }

    async def whole(self) -> Response:
        """All answers at once."""
        sums = [Delta() for _ in self._voices]
        async for index, delta in spoken(self._job, self._voices):
            sums[index].add(delta)
        choices = [
            self._choice(index, *self._echoes[index].next(sums[index], last=True), voice)
            for index, voice in enumerate(self._voices)
        ]
        return JSONResponse(self._head | {"choices": choices, "usage": self._usage()})

    async def events(self) -> AsyncIterator[bytes]:
        """Text, finish, usage where asked for, and the end."""
        async for index, delta in spoken(self._job, self._voices):
            voice = self._voices[index]
            text, logprobs = self._echoes[index].next(delta, last=voice.finish is not None)
            if text or logprobs:
                yield self._chunk(self._choice(index, text, logprobs, None))
            if voice.finish is not None:
                yield self._chunk(self._choice(index, "", None, voice))
        if self._body.include_usage:
            yield chunk(self._head | {"choices": [], "usage": self._usage()})
        yield DONE

    def _choice(self, index: int, text: str, logprobs: dict[str, Any] | None, voice: Voice | None) -> dict[str, Any]:
        choice = {"index": index, "text": text, "logprobs": logprobs, "finish_reason": voice.finish if voice else None}
        return choice | ({"finish_detail": "timeout"} if voice and voice.timed_out else {})

    def _chunk(self, choice: dict[str, Any]) -> bytes:
        frame = self._head | {"choices": [choice]}
        if self._body.continuous_usage:
            frame["usage"] = self._usage()
        elif self._body.include_usage:
            frame["usage"] = None
        return chunk(frame)

    def _usage(self) -> dict[str, int]:
        return usage(self._job, self._voices, self._body.n or 1).model_dump()


class _Echo:
    """Text and log-probabilities of one answer, the prompt in front where it is echoed."""

    def __init__(self, desk: Desk, body: CompletionRequest, ids: list[int], prompt: str | list[int]) -> None:
        self._ids = ids
        self._scored = bool(body.echo) and body.logprobs is not None
        self._held = Delta()
        self._prompt = ""
        if body.echo:
            self._prompt = prompt if isinstance(prompt, str) else desk.text.decode(prompt)
        self._waits = bool(body.echo)
        self._table = CompletionTable(desk.names, body.logprobs or 0) if body.logprobs is not None else None

    def next(self, delta: Delta, *, last: bool) -> tuple[str, dict[str, Any] | None]:
        """What goes out after one more step; nothing until the prompt is scored."""
        self._held.add(delta)
        if self._scored and self._waits and len(self._held.scores) < len(self._ids) and not last:
            return "", None
        held, self._held = self._held, Delta()
        columns = None
        if self._table is not None and self._scored and self._waits:
            columns = self._table.prompt(self._ids, held.scores)
        if self._table is not None and held.tokens:
            columns = _joined(columns, self._table.answer(held.tokens))
        text, self._prompt, self._waits = self._prompt + held.content, "", False
        return text, columns


def _joined(first: dict[str, Any] | None, second: dict[str, Any]) -> dict[str, Any]:
    if first is None:
        return second
    return {name: None if column is None else column + second[name] for name, column in first.items()}

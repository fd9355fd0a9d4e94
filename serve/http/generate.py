"""`POST /generate`: one prompt, one answer, no envelope; the route of the predecessor."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

from fastapi import APIRouter, Request
from starlette.responses import JSONResponse, Response

from serve.errors import ServeError
from serve.http.body import JsonRoute
from serve.http.desk import Desk, client_text, leaving, size, spoken, usage
from serve.http.openapi import COMPLETION_ERRORS, desk_of, streamed
from serve.http.schemas_completions import Generated, GenerateRequest
from serve.http.sse import DONE, chunk
from serve.http.voice import Voice
from serve.service.job import Ask, Job

router = APIRouter(route_class=JsonRoute)


@router.post(
    "/generate",
    response_model=Generated,
    responses=COMPLETION_ERRORS | streamed('events {"text"}, the last one with finish_reason and usage, then [DONE]'),
    summary="Continue one prompt",
)
async def generate(request: Request, body: GenerateRequest) -> Response:
    """An answer, or a stream of events with `stream` true."""
    desk = desk_of(request)
    job = desk.admit(request, 1, [size(body.prompt) + 1])
    with leaving(job):
        voice = await _begin(desk, request, body, job)
        if body.stream:
            return desk.stream(job, _events(job, voice))
        text = ""
        async for _, delta in spoken(job, [voice]):
            text += delta.content
        return JSONResponse({"text": text} | _ending(job, voice))


async def _begin(desk: Desk, request: Request, body: GenerateRequest, job: Job) -> Voice:
    try:
        ids = await desk.tokenised(lambda: desk.encode(body.prompt, "prompt", add_special=True), len(body.prompt))
        reader = desk.text.completion(body.stops)
    except ServeError as error:
        raise client_text(error, "prompt") from error
    stop_ids: frozenset[int] | None = frozenset() if body.ignore_eos else None
    job.submit([Ask(ids, desk.room(ids, body.max_tokens, "prompt"), desk.sampling(body), stop_ids)])
    desk.log(request, job, prompt=body.prompt)
    await job.begun()
    return Voice(reader, desk.text.pieces.special, every_token=True)


async def _events(job: Job, voice: Voice) -> AsyncIterator[bytes]:
    async for _, delta in spoken(job, [voice]):
        if delta.content:
            yield chunk({"text": delta.content})
    yield chunk({"text": ""} | _ending(job, voice))
    yield DONE


def _ending(job: Job, voice: Voice) -> dict[str, Any]:
    ending = {"finish_reason": voice.finish, "usage": usage(job, [voice], 1).model_dump()}
    return ending | ({"finish_detail": "timeout"} if voice.timed_out else {})

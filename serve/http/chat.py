"""`POST /v1/chat/completions`."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from typing import Any

from fastapi import APIRouter, Request
from starlette.responses import JSONResponse, Response

from serve.errors import ServeError
from serve.http.body import JsonRoute
from serve.http.desk import FRAME, Desk, client_text, copies, leaving, new_id, spoken, usage
from serve.http.openapi import COMPLETION_ERRORS, desk_of, streamed
from serve.http.schemas_chat import (
    AnswerCall,
    AnswerMessage,
    ChatChoice,
    ChatCompletion,
    ChatLogprobs,
    ChatRequest,
    FunctionCall,
)
from serve.http.sse import DONE, chunk
from serve.http.voice import Delta, Voice
from serve.service.job import Ask, Job
from serve.text.events import ToolCallStart

router = APIRouter(route_class=JsonRoute)


@router.post(
    "/v1/chat/completions",
    response_model=ChatCompletion,
    responses=COMPLETION_ERRORS | streamed("chunks of the OpenAI type chat.completion.chunk"),
    summary="Continue a chat",
)
async def chat(request: Request, body: ChatRequest) -> Response:
    """An answer, or a stream of chunks with `stream` true."""
    desk = desk_of(request)
    desk.check_model(body.model)
    length = len(await request.body()) + FRAME * len(body.messages)
    job = desk.admit(request, body.n or 1, [length])
    with leaving(job):
        reply = _Reply(desk, body, job, await _begin(desk, request, body, job, length))
        return desk.stream(job, reply.events()) if body.stream else await reply.whole()


async def _begin(desk: Desk, request: Request, body: ChatRequest, job: Job, length: int) -> list[Voice]:
    """Render, tokenise, submit, and wait for a slot."""
    tools, count = body.offered, body.n or 1
    messages = [message.model_dump(exclude_none=True) for message in body.messages]

    def tokenise() -> tuple[str, list[int]]:
        prompt = desk.text.render(messages, tools or None, enable_thinking=body.thinking)
        return prompt, desk.encode(prompt, "messages", add_special=False)

    try:
        prompt, ids = await desk.tokenised(tokenise, length)
        readers = [desk.text.chat(ids, tools or None, body.stops) for _ in range(count)]
    except ServeError as error:
        raise client_text(error, "messages") from error
    ask = Ask(
        ids,
        desk.room(ids, body.limit, "messages", body.limit_name),
        desk.sampling(body),
        stop_ids=frozenset() if body.ignore_eos else None,
        top_logprobs=(body.top_logprobs or 0) if body.logprobs else None,
    )
    job.submit(copies(ask, count))
    desk.log(request, job, prompt=prompt)
    await job.begun()
    one_call = body.parallel_tool_calls is False
    return [Voice(reader, desk.text.pieces.special, every_token=False, one_call=one_call) for reader in readers]


class _Reply:
    """The answers to one chat request, whole or in chunks."""

    def __init__(self, desk: Desk, body: ChatRequest, job: Job, voices: list[Voice]) -> None:
        self._desk, self._body, self._job, self._voices = desk, body, job, voices
        self._head = {"id": new_id("chatcmpl"), "created": int(time.time()), "model": desk.model}

    async def whole(self) -> Response:
        """All answers at once."""
        sums = [Delta() for _ in self._voices]
        async for index, delta in spoken(self._job, self._voices):
            sums[index].add(delta)
        choices = [self._choice(index, sums[index], voice) for index, voice in enumerate(self._voices)]
        answer = ChatCompletion(**self._head, choices=choices, usage=usage(self._job, self._voices, len(choices)))
        return JSONResponse(_shown(answer.model_dump()))

    async def events(self) -> AsyncIterator[bytes]:
        """Role, content, finish, usage where asked for, and the end."""
        for index in range(len(self._voices)):
            yield self._chunk(index, {"role": "assistant"})
        async for index, delta in spoken(self._job, self._voices):
            for part, tokens in _parts(delta):
                yield self._chunk(index, part, tokens)
            voice = self._voices[index]
            if voice.finish is not None:
                detail = {"finish_detail": "timeout"} if voice.timed_out else {}
                yield self._chunk(index, {}, finish=voice.finish, **detail)
        if self._body.include_usage:
            yield chunk(self._frame() | {"choices": [], "usage": self._usage()})
        yield DONE

    def _frame(self) -> dict[str, Any]:
        return self._head | {"object": "chat.completion.chunk"}

    def _usage(self) -> dict[str, int]:
        return usage(self._job, self._voices, len(self._voices)).model_dump()

    def _chunk(
        self, index: int, delta: dict[str, Any], tokens: Any = (), finish: str | None = None, **more: str
    ) -> bytes:
        logprobs = {"content": self._desk.names.chat(tokens)} if self._body.logprobs and tokens else None
        choice = {"index": index, "delta": delta, "logprobs": logprobs, "finish_reason": finish} | more
        frame = self._frame() | {"choices": [choice]}
        if self._body.continuous_usage:
            frame["usage"] = self._usage()
        elif self._body.include_usage:
            frame["usage"] = None
        return chunk(frame)

    def _choice(self, index: int, whole: Delta, voice: Voice) -> ChatChoice:
        calls: list[AnswerCall] = []
        for event in whole.calls:
            if isinstance(event, ToolCallStart):
                calls.append(AnswerCall(id=event.id, function=FunctionCall(name=event.name, arguments="")))
            else:
                calls[event.index].function.arguments += event.fragment
        message = AnswerMessage(
            content=whole.content if whole.content or not calls else None,
            reasoning_content=whole.reasoning or None,
            tool_calls=calls or None,
        )
        logprobs = None
        if self._body.logprobs:
            logprobs = ChatLogprobs.model_validate({"content": self._desk.names.chat(whole.tokens)})
        return ChatChoice(
            index=index,
            message=message,
            logprobs=logprobs,
            finish_reason=voice.finish,
            finish_detail="timeout" if voice.timed_out else None,
        )


def _parts(delta: Delta) -> list[tuple[dict[str, Any], Any]]:
    """The deltas of one step, each with the tokens whose log-probabilities it carries."""
    parts: list[tuple[dict[str, Any], Any]] = []
    if delta.reasoning:
        parts.append(({"reasoning_content": delta.reasoning}, ()))
    if delta.content:
        parts.append(({"content": delta.content}, delta.tokens))
    for event in delta.calls:
        if isinstance(event, ToolCallStart):
            function = {"name": event.name, "arguments": ""}
            call = {"index": event.index, "id": event.id, "type": "function", "function": function}
        else:
            call = {"index": event.index, "function": {"arguments": event.fragment}}
        parts.append(({"tool_calls": [call]}, ()))
    return parts


def _shown(answer: dict[str, Any]) -> dict[str, Any]:
    """Without the fields that only some answers have."""
    for choice in answer["choices"]:
        for place, name in ((choice, "finish_detail"), (choice["message"], "reasoning_content")):
            if place[name] is None:
                del place[name]
        if choice["message"]["tool_calls"] is None:
            del choice["message"]["tool_calls"]
    return answer

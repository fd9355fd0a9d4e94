"""Chats: what goes out, whole and in chunks, from a model that says what the test wants."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from openai.types.chat import ChatCompletion, ChatCompletionChunk

from tests.serve.http.scripted import events, scene

pytestmark = pytest.mark.anyio
TOOL = {
    "type": "function",
    "function": {
        "name": "weather",
        "description": "of a place",
        "parameters": {"type": "object", "properties": {"place": {"type": "string"}}},
    },
}
CALL = '<|tool_call>call:weather{place:<|"|>Paris<|"|>}<tool_call|>'


async def test_an_answer_has_everything_that_the_client_reads(folder: Path) -> None:
    async with scene(folder) as one:
        one.says("The weather is fine.")
        response = await one.chat()
        answer = ChatCompletion.model_validate(response.json(), strict=True)
        assert answer.id.startswith("chatcmpl-")
        assert (answer.object, answer.model) == ("chat.completion", "fake")
        [choice] = answer.choices
        assert choice.message.content == "The weather is fine."
        assert (choice.finish_reason, choice.logprobs, choice.message.tool_calls) == ("stop", None, None)
        made = len(one.text.encode("The weather is fine.", add_special=False)) + 1
        assert answer.usage is not None
        assert answer.usage.completion_tokens == made
        assert answer.usage.total_tokens == answer.usage.prompt_tokens + made


async def test_a_stream_is_role_then_content_then_finish_then_done(folder: Path) -> None:
    async with scene(folder) as one:
        one.says("The weather is fine.")
        chunks = events(await one.chat(stream=True))
        for chunk in chunks:
            ChatCompletionChunk.model_validate(chunk, strict=True)
            assert "usage" not in chunk
        assert len({(chunk["id"], chunk["created"]) for chunk in chunks}) == 1
        first, *middle, last = (chunk["choices"][0] for chunk in chunks)
        assert first["delta"] == {"role": "assistant"}
        assert last["delta"] == {}
        assert last["finish_reason"] == "stop"
        assert all(choice["finish_reason"] is None and set(choice["delta"]) == {"content"} for choice in middle)
        assert "".join(choice["delta"]["content"] for choice in middle) == "The weather is fine."
        assert len(middle) > 3


@pytest.mark.parametrize("continuous", [False, True])
async def test_usage_comes_last_and_only_when_asked_for(folder: Path, continuous: bool) -> None:
    async with scene(folder) as one:
        one.says("The weather")
        options = {"include_usage": True} | ({"continuous_usage_stats": True} if continuous else {})
        *chunks, last = events(await one.chat(stream=True, stream_options=options))
        assert last["choices"] == []
        whole = (await one.chat()).json()["usage"]
        assert last["usage"] == whole
        if continuous:
            counts = [chunk["usage"]["completion_tokens"] for chunk in chunks]
            assert counts == sorted(counts)
            assert counts[-1] == whole["completion_tokens"]
        else:
            assert [chunk["usage"] for chunk in chunks] == [None] * len(chunks)


async def test_the_token_limit_ends_with_length(folder: Path) -> None:
    async with scene(folder) as one:
        one.says("The weather is fine today")
        whole = (await one.chat(max_completion_tokens=2)).json()
        assert whole["choices"][0]["finish_reason"] == "length"
        assert "finish_detail" not in whole["choices"][0]
        assert whole["usage"]["completion_tokens"] == 2
        assert whole["choices"][0]["message"]["content"] == one.text.decode(one.runtime.answer([])[:2])


@pytest.mark.parametrize("stream", [False, True])
async def test_a_stop_string_ends_the_answer_before_it(folder: Path, stream: bool) -> None:
    async with scene(folder) as one:
        one.says("The weather in Paris is fine today, and the model answers with a call.")
        response = await one.chat(stop=["zebra", "fine to"], stream=stream)
        if stream:
            choices = [chunk["choices"][0] for chunk in events(response)]
            text = "".join(choice["delta"].get("content", "") for choice in choices)
            finish = choices[-1]["finish_reason"]
        else:
            [choice] = response.json()["choices"]
            text, finish = choice["message"]["content"], choice["finish_reason"]
        assert (text, finish) == ("The weather in Paris is ", "stop")
        await one.idle()


@pytest.mark.parametrize("text", ["na\u00efve \U0001f9d1\u200d\U0001f680 \u4f60\u597d", "\u0000 \t\n", "a \ufffd b"])
async def test_split_characters_arrive_whole(folder: Path, text: str) -> None:
    async with scene(folder) as one:
        one.says(text)
        chunks = events(await one.chat(stream=True))
        pieces = [chunk["choices"][0]["delta"].get("content", "") for chunk in chunks]
        assert "".join(pieces) == text
        assert (await one.chat()).json()["choices"][0]["message"]["content"] == text


async def test_a_tool_call_goes_out_as_one(folder: Path) -> None:
    async with scene(folder) as one:
        one.says("<|channel>thought\nLook it up.\n<channel|>I look." + CALL + "<|tool_response>")
        response = await one.chat(tools=[TOOL])
        [choice] = ChatCompletion.model_validate(response.json(), strict=True).choices
        assert choice.finish_reason == "tool_calls"
        assert choice.message.content == "I look."
        assert response.json()["choices"][0]["message"]["reasoning_content"] == "Look it up."
        assert choice.message.tool_calls is not None
        [call] = choice.message.tool_calls
        assert call.type == "function"
        assert call.function.name == "weather"
        assert json.loads(call.function.arguments) == {"place": "Paris"}


async def test_a_streamed_call_adds_up_to_the_same(folder: Path) -> None:
    async with scene(folder) as one:
        one.says(CALL + CALL.replace("Paris", "Rome") + "<|tool_response>")
        chunks = events(await one.chat(tools=[TOOL], stream=True))
        calls: dict[int, Any] = {}
        for chunk in chunks:
            ChatCompletionChunk.model_validate(chunk, strict=True)
            for part in chunk["choices"][0]["delta"].get("tool_calls", []):
                if "id" in part:
                    assert part["index"] not in calls
                    calls[part["index"]] = part | {"arguments": ""}
                calls[part["index"]]["arguments"] += part["function"]["arguments"]
        assert [call["function"]["name"] for call in calls.values()] == ["weather"] * 2
        assert [json.loads(call["arguments"])["place"] for call in calls.values()] == ["Paris", "Rome"]
        assert chunks[-1]["choices"][0]["finish_reason"] == "tool_calls"


async def test_one_call_only_where_parallel_calls_are_off(folder: Path) -> None:
    async with scene(folder) as one:
        one.says(CALL + CALL.replace("Paris", "Rome") + "<|tool_response>")
        [choice] = (await one.chat(tools=[TOOL], parallel_tool_calls=False)).json()["choices"]
        assert len(choice["message"]["tool_calls"]) == 1
        assert choice["finish_reason"] == "tool_calls"
        await one.idle()


async def test_tools_that_may_not_be_called_are_not_offered(folder: Path) -> None:
    async with scene(folder) as one:
        one.says(CALL)
        [choice] = (await one.chat(tools=[TOOL], tool_choice="none")).json()["choices"]
        assert "tool_calls" not in choice["message"]
        assert choice["finish_reason"] == "stop"


async def test_a_call_and_its_result_are_a_valid_history(folder: Path) -> None:
    async with scene(folder) as one:
        one.says("Fine.")
        call = {"id": "call_1", "type": "function", "function": {"name": "weather", "arguments": '{"place": "Paris"}'}}
        messages = [
            {"role": "system", "content": "Be short."},
            {"role": "user", "content": [{"type": "text", "text": "Weather?"}]},
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "call_1", "content": "fine"},
        ]
        response = await one.client.post("/v1/chat/completions", json={"messages": messages, "tools": [TOOL]})
        assert response.status_code == 200, response.text


async def test_logprobs_have_an_entry_per_content_token(folder: Path) -> None:
    async with scene(folder) as one:
        one.says("<|channel>thought\nHm.\n<channel|>The weather \u4f60")
        response = await one.chat(logprobs=True, top_logprobs=2)
        [choice] = ChatCompletion.model_validate(response.json(), strict=True).choices
        assert choice.logprobs is not None
        assert choice.logprobs.content is not None
        entries = choice.logprobs.content
        raw = b"".join(bytes(entry.bytes or []) for entry in entries)
        assert raw.decode() == choice.message.content == "The weather \u4f60"
        for entry in entries:
            assert entry.logprob == pytest.approx(-0.10536, abs=1e-4)
            assert entry.top_logprobs[0].token == entry.token
            assert entry.top_logprobs[1].logprob == pytest.approx(-2.9957, abs=1e-3)
        assert any(entry.token.startswith("bytes:\\x") for entry in entries)
        chunks = events(await one.chat(logprobs=True, top_logprobs=2, stream=True))
        logprobs = (c["choices"][0]["logprobs"] for c in chunks)
        streamed = [entry for some in logprobs if some for entry in some["content"]]
        assert streamed == response.json()["choices"][0]["logprobs"]["content"]


async def test_n_answers_differ_and_a_seed_repeats_them(folder: Path) -> None:
    async with scene(folder) as one:
        one.says("The weather in Paris is fine today")

        async def texts(**fields: Any) -> list[str]:
            body = (await one.chat(temperature=2.0, top_p=1.0, top_k=0, max_tokens=12, **fields)).json()
            assert [choice["index"] for choice in body["choices"]] == list(range(fields.get("n", 1)))
            return [choice["message"]["content"] for choice in body["choices"]]

        three = await texts(n=3, seed=-5)
        assert len(set(three)) == 3
        assert await texts(n=3, seed=-5) == three
        assert (await texts(seed=-5))[0] == three[0]
        assert await texts(seed=6) != await texts(seed=7)


async def test_n_streams_share_one_stream(folder: Path) -> None:
    async with scene(folder) as one:
        one.says("The weather")
        chunks = events(await one.chat(n=3, stream=True))
        for index in range(3):
            mine = [c["choices"][0] for c in chunks if c["choices"][0]["index"] == index]
            assert mine[0]["delta"] == {"role": "assistant"}
            assert "".join(choice["delta"].get("content", "") for choice in mine) == "The weather"
            assert mine[-1]["finish_reason"] == "stop"


async def test_biases_and_penalties_reach_the_engine(folder: Path) -> None:
    async with scene(folder) as one:
        ids = one.text.encode("The weather", add_special=False)
        one.runtime.answer = lambda _prompt: ids
        free = (await one.chat(logit_bias={str(ids[0]): -100}, max_tokens=1)).json()["choices"][0]["message"]["content"]
        assert free == one.text.decode([9])
        one.runtime.answer = lambda _prompt: [ids[0]] * 9
        content = (await one.chat(frequency_penalty=2, max_tokens=3)).json()["choices"][0]["message"]["content"]
        assert content == one.text.decode([ids[0], ids[0], 9])

"""One envelope for every status, each refusal before the first byte, and the field named."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import httpx
import pytest

from serve.http.errors import ErrorEnvelope
from tests.serve.http.scripted import KV_MAX, SIZE, Scene, scene

pytestmark = pytest.mark.anyio
USER = [{"role": "user", "content": "Hello"}]


def envelope(response: httpx.Response, status: int, param: str | None = None, code: str | None = None) -> str:
    """The message of an error, after a look at the rest."""
    assert response.status_code == status, response.text
    assert response.headers["content-type"] == "application/json"
    assert set(response.json()) == {"error"}
    error = ErrorEnvelope.model_validate(response.json(), strict=True).error
    assert error.param == param
    assert code is None or error.code == code
    assert "x-request-id" in response.headers
    return error.message


CHAT_REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"messages": []}, "messages"),
    ({"messages": [{"role": "nobody", "content": "x"}]}, "messages[0].role"),
    ({"messages": [{"role": "user"}]}, "messages[0]"),
    ({"messages": [{"role": "user", "content": 3}]}, "messages[0].content"),
    ({"messages": [{"role": "user", "content": [{"type": "image_url"}]}]}, "messages[0].content[0].type"),
    ({"temperature": -0.1}, "temperature"),
    ({"temperature": 2.1}, "temperature"),
    ({"temperature": "1"}, "temperature"),
    ({"top_p": 0}, "top_p"),
    ({"top_k": -2}, "top_k"),
    ({"top_k": 1.5}, "top_k"),
    ({"min_p": 1.5}, "min_p"),
    ({"repetition_penalty": 0}, "repetition_penalty"),
    ({"presence_penalty": 3}, "presence_penalty"),
    ({"frequency_penalty": -3}, "frequency_penalty"),
    ({"logit_bias": {"x": 1}}, "logit_bias.x"),
    ({"logit_bias": {"3": 101}}, "logit_bias.3"),
    ({"logit_bias": {str(SIZE): 1}}, "logit_bias"),
    ({"seed": 2**63}, "seed"),
    ({"stop": ""}, "stop"),
    ({"stop": ["a"] * 5}, "stop"),
    ({"stop": ["a", ""]}, "stop[1]"),
    ({"n": 0}, "n"),
    ({"n": 129}, "n"),
    ({"max_tokens": 0}, "max_tokens"),
    ({"max_tokens": KV_MAX}, "max_tokens"),
    ({"max_completion_tokens": KV_MAX}, "max_completion_tokens"),
    ({"max_tokens": 1, "max_completion_tokens": 2}, "max_tokens"),
    ({"top_logprobs": 2}, "top_logprobs"),
    ({"logprobs": True, "top_logprobs": 21}, "top_logprobs"),
    ({"stream_options": {"include_usage": True}}, "stream_options"),
    ({"stream": True, "stream_options": {"x": True}}, "stream_options.x"),
    ({"response_format": {"type": "json_object"}}, "response_format.type"),
    ({"response_format": {"type": "json_schema", "json_schema": {}}}, "response_format.type"),
    ({"tool_choice": "required"}, "tool_choice"),
    ({"tools": [{"type": "function", "function": {"name": "a b"}}]}, "tools[0].function.name"),
    ({"tools": [{"type": "function", "function": {"name": "a", "strict": True}}]}, "tools[0].function.strict"),
    ({"reasoning_effort": "high"}, "reasoning_effort"),
    ({"store": True}, "store"),
    ({"functions": []}, "functions"),
    ({"audio": {}}, "audio"),
]


@pytest.mark.parametrize(("fields", "param"), CHAT_REFUSED)
@pytest.mark.parametrize("stream", [False, True])
async def test_a_field_that_is_not_supported_is_named(
    folder: Path, fields: dict[str, Any], param: str, stream: bool
) -> None:
    async with scene(folder) as one:
        body = {"messages": USER} | ({"stream": True} if stream else {}) | fields
        if "stream_options" in fields and "stream" not in fields:
            body.pop("stream", None)
        message = envelope(await one.client.post("/v1/chat/completions", json=body), 400, param)
        assert param.split("[", maxsplit=1)[0].split(".", maxsplit=1)[0] in message
        assert one.runtime.steps == 0
        assert one.desk.service.admitted == 0


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({}, "prompt"),
        ({"prompt": []}, "prompt"),
        ({"prompt": [-1]}, "prompt[0]"),
        ({"prompt": [SIZE]}, "prompt"),
        ({"prompt": [[1], []]}, "prompt[1]"),
        ({"prompt": "a", "max_tokens": 0}, "max_tokens"),
        ({"prompt": "a", "best_of": 2}, "best_of"),
        ({"prompt": "a", "suffix": "b"}, "suffix"),
        ({"prompt": "a", "logprobs": 21}, "logprobs"),
        ({"prompt": "a", "logprobs": True}, "logprobs"),
        ({"prompt": ["a"] * 70}, "n"),
    ],
)
async def test_a_bad_completion_is_named(folder: Path, fields: dict[str, Any], param: str) -> None:
    async with scene(folder) as one:
        envelope(await one.client.post("/v1/completions", json=fields), 400, param)
        assert one.desk.service.admitted == 0


@pytest.mark.parametrize("route", ["/v1/chat/completions", "/v1/completions", "/generate"])
async def test_a_prompt_that_does_not_fit_has_its_own_code(folder: Path, route: str) -> None:
    async with scene(folder) as one:
        words = "the " * KV_MAX
        body: dict[str, Any] = {"prompt": words}
        if "chat" in route:
            body = {"messages": [{"role": "user", "content": words}]}
        param = "messages" if "chat" in route else "prompt"
        message = envelope(await one.client.post(route, json=body), 400, param, "context_length_exceeded")
        assert str(KV_MAX) in message


async def test_another_model_does_not_exist(folder: Path) -> None:
    async with scene(folder) as one:
        envelope(await one.chat(model="gpt"), 404, "model", "model_not_found")
        assert (await one.chat(model="fake")).status_code == 200
        envelope(await one.client.get("/v1/models/gpt"), 404, "model", "model_not_found")


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (b"{", "invalid_json"),
        (b'{"messages": NaN', "invalid_json"),
        (b"[]", None),
        (b"3", None),
        (b"", None),
        (b"\xff\xfe", None),
        (b"[" * 100_000, None),
    ],
)
async def test_a_body_that_is_no_request(folder: Path, body: bytes, code: str | None) -> None:
    async with scene(folder) as one:
        headers = {"content-type": "application/json"}
        envelope(await one.client.post("/v1/chat/completions", content=body, headers=headers), 400, None, code)


async def test_half_a_surrogate_pair_is_refused(folder: Path) -> None:
    async with scene(folder) as one:
        body = b'{"messages": [{"role": "user", "content": "\\ud800"}]}'
        headers = {"content-type": "application/json"}
        response = await one.client.post("/v1/chat/completions", content=body, headers=headers)
        envelope(response, 400, "messages")
        for field in (b'"\\ud800": 1', b'"model": "\\ud800"', b'"Foo": 1'):
            response = await one.client.post("/v1/completions", content=b"{%s}" % field, headers=headers)
            assert response.status_code in (400, 404)
            assert response.json()["error"]["param"] in (None, "prompt", "Foo")


async def test_json_has_to_say_that_it_is_json(folder: Path) -> None:
    async with scene(folder) as one:
        body = json.dumps({"messages": USER}).encode()
        headers = {"content-type": "text/plain"}
        message = envelope(await one.client.post("/v1/chat/completions", content=body, headers=headers), 400)
        assert "application/json" in message


async def test_unknown_paths_and_methods(folder: Path) -> None:
    async with scene(folder) as one:
        envelope(await one.client.get("/v1/nothing"), 404, None, "not_found")
        envelope(await one.client.get("/v1/models/"), 404, "model")
        response = await one.client.get("/v1/chat/completions")
        envelope(response, 405, None, "method_not_allowed")
        assert response.headers["allow"] == "POST"


async def test_a_body_beyond_the_limit(folder: Path) -> None:
    async with scene(folder, body_limit=1000) as one:
        envelope(await one.chat("x" * 1000), 413, None, "request_too_large")

        async def pieces() -> Any:
            for _ in range(50):
                yield b" " * 100

        headers = {"content-type": "application/json"}
        response = await one.client.post("/v1/completions", content=pieces(), headers=headers)
        envelope(response, 413, None, "request_too_large")
        assert (await one.chat("x")).status_code == 200


async def test_a_key_guards_everything_but_the_probes(folder: Path) -> None:
    async with scene(folder, api_key="secret") as one:
        for key in (None, "Bearer wrong", "secret"):
            headers = {} if key is None else {"authorization": key}
            for path in ("/v1/models", "/openapi.json", "/nothing"):
                response = await one.client.get(path, headers=headers)
                envelope(response, 401, None, "invalid_api_key")
                assert response.headers["www-authenticate"] == "Bearer"
        for path in ("/", "/health", "/ready", "/metrics"):
            assert (await one.client.get(path)).status_code == 200
        good = {"authorization": "Bearer secret"}
        assert (await one.client.get("/v1/models", headers=good)).status_code == 200
        envelope(await one.client.get("/nothing", headers=good), 404)


async def test_request_ids_come_back(folder: Path) -> None:
    async with scene(folder) as one:
        given = (await one.client.get("/health", headers={"x-request-id": "abc-1"})).headers["x-request-id"]
        assert given == "abc-1"
        made = {(await one.client.get("/health", headers={"x-request-id": "a b"})).headers["x-request-id"]}
        made.add((await one.client.get("/health")).headers["x-request-id"])
        assert len(made) == 2
        assert "a b" not in made


async def test_the_log_has_no_text_unless_asked_for(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "serve")
    for log_text in (False, True):
        caplog.clear()
        async with scene(folder, log_text=log_text) as one:
            await one.chat("zebra crossing")
            await one.complete("zebra crossing")
            await one.client.post("/generate", json={"prompt": "zebra crossing", "top_p": "zebra"})
        lines = [vars(record)["fields"] for record in caplog.records]
        assert [line["status"] for line in lines] == [200, 200, 400]
        assert all(line["request_id"] for line in lines)
        assert lines[0]["prompt_tokens"] > 0
        assert ("zebra" in json.dumps(lines)) == log_text


async def test_an_engine_that_fails_is_told_to_everybody(folder: Path) -> None:
    async with scene(folder) as one:
        await _fail(one)
        envelope(await one.chat(), 500, None, "engine_failed")
        envelope(await one.client.get("/health"), 500, None, "engine_failed")
        envelope(await one.client.get("/ready"), 500, None, "engine_failed")
        assert str(await one.desk.service.failure) == "device lost"


async def test_a_failure_after_the_first_byte_is_an_error_chunk(folder: Path) -> None:
    async with scene(folder) as one:
        one.says("The weather in Paris is fine today")
        one.runtime.pause()
        call = one.call("/v1/chat/completions", {"messages": USER, "stream": True})
        one.runtime.go(3)
        await call.until(lambda: call.body.count(b"content") >= 1)
        one.runtime.fails = True
        one.runtime.go()
        await call.done
        *chunks, last = [json.loads(line[6:]) for line in call.body.decode().split("\n\n") if line]
        assert "content" in chunks[-1]["choices"][0]["delta"]
        ErrorEnvelope.model_validate(last, strict=True)
        assert last["error"]["code"] == "engine_failed"


async def _fail(one: Scene) -> None:
    one.runtime.fails = True
    envelope(await one.chat(), 500, None, "engine_failed")

"""Bodies that a careless or hostile client sends: what is no JSON, and what would keep the event loop busy."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import httpx
import pytest
from pydantic import BaseModel, ValidationError

from serve.http.schemas_chat import ChatRequest
from serve.http.schemas_common import BIASES, STOP_LENGTH
from serve.http.schemas_completions import CompletionRequest
from tests.serve.http.listening import Client, listening
from tests.serve.http.scripted import KV_MAX, Scene, scene

pytestmark = pytest.mark.anyio
CHAT, COMPLETIONS, GENERATE = "/v1/chat/completions", "/v1/completions", "/generate"
USER = [{"role": "user", "content": "Hello"}]
LONGEST = "<|tool_response>"  # of the scripted model's vocabulary


async def post(one: Scene, path: str, content: bytes) -> httpx.Response:
    return await one.client.post(path, content=content, headers={"content-type": "application/json"})


def refused(response: httpx.Response, param: str | None, code: str) -> str:
    assert response.status_code == 400, response.text
    error = response.json()["error"]
    assert (error["param"], error["code"]) == (param, code)
    return str(error["message"])


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b'{"prompt": "\xff"}', "byte 0xff is not UTF-8 at character 12"),
        ('{"prompt": "x"}'.encode("utf-16"), "byte 0xff is not UTF-8"),
        (b'{"prompt": "x", "temperature": NaN}', "NaN is no JSON value"),
        (b'{"prompt": "x", "anything": [-Infinity]}', "-Infinity is no JSON value"),
        (b'{"prompt": ' + b"[" * 100_000 + b"]" * 100_000 + b"}", "nested too deep"),
        (b'{"prompt": "x", "seed": 1' + b"0" * 5000 + b"}", "too many digits"),
        (b'{"prompt": "x"', "at character 14"),
    ],
)
async def test_what_is_no_json_is_said_to_be_none(folder: Path, content: bytes, words: str) -> None:
    async with scene(folder) as one:
        for path in (CHAT, COMPLETIONS, GENERATE):
            message = refused(await post(one, path, content), None, "invalid_json")
            assert message.startswith("the body is not JSON: ")
            assert words in message


async def test_a_byte_order_mark_is_passed_over(folder: Path) -> None:
    async with scene(folder) as one:
        assert (await post(one, GENERATE, b'\xef\xbb\xbf{"prompt": "Hello"}')).status_code == 200


@pytest.mark.parametrize("prompt", ["\ud800", ["\ud800"], ["Hello", "\udc00"]])
async def test_half_a_surrogate_pair_in_any_prompt_is_refused(folder: Path, prompt: Any) -> None:
    async with scene(folder) as one:
        content = json.dumps({"prompt": prompt}).encode()
        assert "surrogate" in refused(await post(one, COMPLETIONS, content), "prompt", "invalid_value")
        if isinstance(prompt, str):
            assert "surrogate" in refused(await post(one, GENERATE, content), "prompt", "invalid_value")
        assert one.desk.service.admitted == 0


@pytest.mark.parametrize("path", [CHAT, COMPLETIONS, GENERATE])
async def test_a_text_that_cannot_fit_is_not_tokenised(
    folder: Path, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with scene(folder) as one:
        monkeypatch.setattr(one.text, "encode", lambda *_, **__: 1 / 0)
        text = "a" * (len(LONGEST) * KV_MAX + 1)
        body: dict[str, Any] = {"prompt": text}
        if path == CHAT:
            body = {"messages": [{"role": "user", "content": text}]}
        message = refused(
            await one.client.post(path, json=body), "messages" if path == CHAT else "prompt", "context_length_exceeded"
        )
        assert "at least" in message
        assert one.desk.service.admitted == 0


async def test_a_text_of_the_longest_tokens_fits_as_long_as_they_do(folder: Path) -> None:
    async with scene(folder) as one:
        # BOS in front, one token for the answer.
        full = await one.complete(LONGEST * (KV_MAX - 2), max_tokens=1)
        assert full.json()["usage"] == {"prompt_tokens": KV_MAX - 1, "completion_tokens": 1, "total_tokens": KV_MAX}
        message = refused(await one.complete(LONGEST * KV_MAX, max_tokens=1), "prompt", "context_length_exceeded")
        assert f"the prompt has {KV_MAX + 1} tokens" in message


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"stop": "a" * (STOP_LENGTH + 1)}, "stop"),
        ({"stop": ["a", "a" * (STOP_LENGTH + 1)]}, "stop[1]"),
        ({"logit_bias": {str(number): 1 for number in range(BIASES + 1)}}, "logit_bias"),
        ({"tools": [{"type": "function", "function": {"name": "a"}}] * 129}, "tools"),
    ],
)
async def test_lists_have_a_largest_size(folder: Path, fields: dict[str, Any], param: str) -> None:
    async with scene(folder) as one:
        response = await one.client.post(CHAT, json={"messages": USER} | fields)
        assert "at most" in refused(response, param, "invalid_value")


@pytest.mark.parametrize(
    ("model", "body"),
    [
        (ChatRequest, {"messages": [1] * 1000}),
        (ChatRequest, {"messages": [{"role": "user", "content": [1] * 1000}]}),
        (ChatRequest, {"messages": USER, "tools": [1] * 100}),
        (ChatRequest, {"messages": USER, "logit_bias": {"x" * number: 1 for number in range(2000)}}),
        (ChatRequest, {"messages": USER} | {f"x{number}": 1 for number in range(1000)}),
        (ChatRequest, {"messages": USER, "stream": True, "stream_options": dict.fromkeys(map(str, range(1000)))}),
        (CompletionRequest, {"prompt": [-1] * 1000}),
        (CompletionRequest, {"prompt": [[-1]] * 1000}),
        (CompletionRequest, {"prompt": ["a"] * 1000 + [{}] * 1000}),
    ],
)
def test_a_list_is_wrong_in_one_place(model: type[BaseModel], body: dict[str, Any]) -> None:
    """To find a million, and to tell of each, would keep the event loop for seconds."""
    with pytest.raises(ValidationError) as caught:
        model.model_validate(body)
    assert caught.value.error_count() <= 4  # one for each kind of value that a field may have


async def test_ids_may_be_written_as_whole_floats(folder: Path) -> None:
    async with scene(folder) as one:
        answers = [await one.complete(prompt, max_tokens=2) for prompt in ([5.0, 6], [5, 6], [[5.0, 6.0]])]
        assert len({answer.json()["choices"][0]["text"] for answer in answers}) == 1
        refused(await one.complete([5.5, 6]), "prompt[0]", "invalid_value")
        refused(await one.complete([True, 6]), "prompt[0]", "invalid_value")


async def test_head_is_get_without_its_body(folder: Path) -> None:
    async with scene(folder) as one, listening(one) as port:
        for path in ("/", "/health", "/ready", "/metrics", "/v1/models", "/openapi.json", "/nothing"):
            answers = []
            for method in ("HEAD", "GET"):
                client = await Client.to(port)
                await client.send(f"{method} {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n".encode())
                head, _, body = (await client.rest()).partition(b"\r\n\r\n")
                answers.append((head.split(b"\r\n")[0], b"content-length: " in head, bool(body)))
            assert answers[0] == (answers[1][0], True, False)
            assert answers[1][1:] == (True, True)


async def test_a_method_that_a_route_lacks(folder: Path) -> None:
    async with scene(folder) as one:
        for path, allowed in ((CHAT, "POST"), (COMPLETIONS, "POST"), (GENERATE, "POST"), ("/health", "GET")):
            for method in ("OPTIONS", "PUT", "DELETE", "PATCH", "TRACE", "PROPFIND"):
                response = await one.client.request(method, path)
                assert (response.status_code, response.headers["allow"]) == (405, allowed)
                assert response.json()["error"]["code"] == "method_not_allowed"


async def test_a_type_that_is_no_json(folder: Path) -> None:
    async with scene(folder) as one:
        for kind in ("", "text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x"):
            response = await one.client.post(GENERATE, content=b'{"prompt": "x"}', headers={"content-type": kind})
            assert "content-type application/json" in refused(response, None, "invalid_value")

"""Completions: prompts in four forms, echo, log-probabilities as evaluation harnesses read them; and /generate."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
from openai.types import Completion

from tests.serve.http.scripted import SIZE, Scene, events, scene

pytestmark = pytest.mark.anyio
TEXT = "The weather in Paris"


def only(response: Any) -> Any:
    """The one choice, after a look at the types."""
    typed = response.json()
    if typed["choices"][0]["logprobs"]:
        # The first token of all has null here, as OpenAI's API and lm-eval have it and the client's types do not.
        for column in typed["choices"][0]["logprobs"].values():
            del (column or [0])[0]
    Completion.model_validate(typed, strict=True)
    [choice] = response.json()["choices"]
    return choice


async def test_a_completion_is_what_the_model_says(folder: Path) -> None:
    async with scene(folder) as one:
        one.says(TEXT)
        response = await one.complete(max_tokens=50)
        choice = only(response)
        assert (choice["text"], choice["finish_reason"], choice["logprobs"]) == (TEXT, "stop", None)
        prompt = one.text.encode("Hello", add_special=True)
        assert response.json()["usage"]["prompt_tokens"] == len(prompt)
        assert prompt[0] == 2


async def test_sixteen_tokens_is_the_default(folder: Path) -> None:
    async with scene(folder) as one:
        one.says(TEXT * 9)
        response = await one.complete()
        assert response.json()["usage"]["completion_tokens"] == 16
        assert only(response)["finish_reason"] == "length"


async def test_prompts_in_all_four_forms(folder: Path) -> None:
    async with scene(folder) as one:
        one.runtime.answer = lambda prompt: prompt
        ids = one.text.encode(TEXT, add_special=False)
        for prompt, texts in (
            (TEXT, [TEXT]),
            ([TEXT, "Return"], [TEXT, "Return"]),
            (ids, [TEXT]),
            ([ids, ids[:2]], [TEXT, one.text.decode(ids[:2])]),
        ):
            response = await one.complete(prompt, max_tokens=30)
            assert [choice["text"] for choice in response.json()["choices"]] == texts
        body = (await one.complete([TEXT, "Return"], n=2, max_tokens=30)).json()
        assert [choice["text"] for choice in body["choices"]] == [TEXT, TEXT, "Return", "Return"]
        assert [choice["index"] for choice in body["choices"]] == [0, 1, 2, 3]
        lengths = [len(one.text.encode(text, add_special=True)) for text in (TEXT, "Return")]
        assert body["usage"]["prompt_tokens"] == sum(lengths)


async def test_echo_scores_the_prompt(folder: Path) -> None:
    async with scene(folder) as one:
        ids = one.text.encode(TEXT, add_special=True)
        # After a first token that the test chooses, the model says the prompt itself; in the end, "Return".
        last = one.text.encode("Return", add_special=False)
        truth = {tuple(ids[:n]): ids[n] for n in range(1, len(ids))}

        def token(prompt: list[int]) -> list[int]:
            return [truth.get(tuple(ids[: n + 1]), 5) for n in range(len(ids) - 1)] + last

        one.runtime.answer = token
        for max_tokens in (0, 1):
            response = await one.complete(ids, echo=True, logprobs=1, max_tokens=max_tokens)
            choice = only(response)
            table = choice["logprobs"]
            assert len(table["tokens"]) == len(ids) + max_tokens
            assert table["token_logprobs"][0] is None
            assert table["top_logprobs"][0] is None
            assert table["token_logprobs"][1 : len(ids)] == pytest.approx([math.log(0.9)] * (len(ids) - 1), abs=1e-4)
            # How lm-eval sums a continuation and asks whether it is greedy.
            for value, top in zip(table["token_logprobs"][1:], table["top_logprobs"][1:], strict=True):
                assert value == max(top.values())
            assert choice["text"].startswith(TEXT)
            assert response.json()["usage"]["completion_tokens"] == max_tokens


async def test_offsets_point_into_the_text(folder: Path) -> None:
    async with scene(folder) as one:
        # A scored prompt goes through the decode graph: the model speaks from its first token on.
        filler = [5] * (len(one.text.encode(TEXT, add_special=True)) - 1)
        ids = filler + one.text.encode(" is fine \u4f60", add_special=False)
        one.runtime.answer = lambda _prompt: ids
        choice = only(await one.complete(TEXT, echo=True, logprobs=2, max_tokens=30))
        table, text = choice["logprobs"], choice["text"]
        assert text == TEXT + " is fine \u4f60"
        for token, offset in zip(table["tokens"], table["text_offset"], strict=True):
            if not token.startswith(("<", "bytes:")):
                assert text[offset : offset + len(token)] == token
        assert table["text_offset"] == sorted(table["text_offset"])


async def test_an_unlikely_token_has_a_finite_logprob(folder: Path) -> None:
    async with scene(folder) as one:
        one.says(TEXT)
        choice = only(await one.complete([2, 5, 6], echo=True, logprobs=0, max_tokens=0, logit_bias={"9": -100}))
        assert choice["logprobs"]["top_logprobs"] is None
        assert all(value is None or math.isfinite(value) for value in choice["logprobs"]["token_logprobs"])


async def test_echo_without_logprobs_is_the_text(folder: Path) -> None:
    async with scene(folder) as one:
        one.says(TEXT)
        assert only(await one.complete("Return ", echo=True, max_tokens=40))["text"] == "Return " + TEXT
        assert only(await one.complete("Return ", echo=True, max_tokens=0))["text"] == "Return "


@pytest.mark.parametrize("echo", [False, True])
@pytest.mark.parametrize("logprobs", [None, 2])
async def test_a_stream_adds_up_to_the_whole(folder: Path, echo: bool, logprobs: int | None) -> None:
    async with scene(folder) as one:
        one.says(TEXT + " \u4f60\u597d")
        fields = {"echo": echo, "logprobs": logprobs, "max_tokens": 30, "stop": ["zebra"]}
        whole = only(await one.complete("Return", **fields))
        chunks = events(await one.complete("Return", stream=True, stream_options={"include_usage": True}, **fields))
        *pieces, ending, usage = chunks
        assert len({(chunk["id"], chunk["created"], chunk["object"]) for chunk in chunks}) == 1
        assert usage["choices"] == []
        assert usage["usage"]["completion_tokens"] > 0
        assert ending["choices"][0]["finish_reason"] == whole["finish_reason"]
        assert all(piece["choices"][0]["finish_reason"] is None for piece in pieces)
        assert "".join(piece["choices"][0]["text"] for piece in pieces) == whole["text"]
        if logprobs is not None:
            tables = [piece["choices"][0]["logprobs"] for piece in pieces]
            for column, values in whole["logprobs"].items():
                assert [value for table in tables if table for value in table[column]] == values


async def test_ignoring_the_end_goes_on(folder: Path) -> None:
    async with scene(folder) as one:
        one.says(TEXT)
        response = await one.complete(max_tokens=40, ignore_eos=True)
        assert response.json()["usage"]["completion_tokens"] == 40
        assert only(response)["text"] == TEXT


async def test_generate_answers_without_an_envelope(folder: Path) -> None:
    async with scene(folder) as one:
        one.says(TEXT)
        body = {"prompt": "Hello", "max_tokens": 30, "temperature": 0}
        found = (await one.client.post("/generate", json=body)).json()
        made = len(one.text.encode(TEXT, add_special=False)) + 1
        prompt = len(one.text.encode("Hello", add_special=True))
        usage = {"prompt_tokens": prompt, "completion_tokens": made, "total_tokens": prompt + made}
        assert found == {"text": TEXT, "finish_reason": "stop", "usage": usage}
        *pieces, last = events(await one.client.post("/generate", json=body | {"stream": True}))
        assert "".join(piece["text"] for piece in pieces) == TEXT
        assert all(set(piece) == {"text"} for piece in pieces)
        assert last == {"text": "", "finish_reason": "stop", "usage": usage}


async def test_the_checkpoints_defaults_hold_where_a_request_says_nothing(folder: Path) -> None:
    async with scene(folder) as one:
        one.says(TEXT * 3)
        seen = await _samplings(one, {}, {"temperature": 0.5, "top_k": -1, "top_p": 0.5}, {"top_k": None})
        assert [(s.temperature, s.top_k, s.top_p) for s in seen] == [(1.0, 64, 0.95), (0.5, 0, 0.5), (1.0, 64, 0.95)]


async def _samplings(one: Scene, *requests: dict[str, Any]) -> list[Any]:
    engine = one.desk.service.engine
    assert engine is not None
    submit, seen = engine.submit, []

    def watched(*ids: Any, **fields: Any) -> Any:
        seen.append(fields["sampling"])
        return submit(*ids, **fields)

    engine.submit = watched  # type: ignore[method-assign]
    for fields in requests:
        response = await one.client.post("/v1/completions", json={"prompt": "Hello", "max_tokens": 1} | fields)
        assert response.status_code == 200
    return seen


async def test_token_ids_at_the_edge_of_the_vocabulary(folder: Path) -> None:
    async with scene(folder) as one:
        assert (await one.complete([SIZE - 1])).status_code == 200
        assert json.loads((await one.complete([SIZE])).text)["error"]["param"] == "prompt"

"""Probes, metrics, the status page, the model list, and an OpenAPI document that is true."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from openai.types import Model
from prometheus_client.parser import text_string_to_metric_families

from tests.serve.http.scripted import KV_MAX, Scene, scene

pytestmark = pytest.mark.anyio


async def figures(one: Scene) -> dict[str, float]:
    """Samples of /metrics by name and labels."""
    response = await one.client.get("/metrics")
    assert response.headers["content-type"].startswith("text/plain")
    families = text_string_to_metric_families(response.text)
    found = {}
    for family in families:
        for sample in family.samples:
            labels = ",".join(f"{name}={value}" for name, value in sorted(sample.labels.items()))
            found[f"{sample.name.removeprefix('neff_foundry_')}{{{labels}}}"] = sample.value
    return found


async def test_figures_count_what_happened(folder: Path) -> None:
    async with scene(folder, queue=3) as one:
        one.says("The weather")
        made = len(one.text.encode("The weather", add_special=False)) + 1
        prompt = len(one.text.encode("Hello", add_special=True))
        for _ in range(3):
            await one.complete()
        await one.chat(temperature="x")
        found = await figures(one)
        assert found["generation_tokens_total{}"] == 3 * made
        assert found["prompt_tokens_total{}"] == 3 * prompt
        assert found["request_success_total{finished_reason=stop}"] == 3
        assert found["errors_total{kind=invalid_value}"] == 1
        for name, count in {
            "time_to_first_token_seconds": 3,
            "inter_token_latency_seconds": 3 * (made - 1),
            "e2e_request_latency_seconds": 3,
            "request_queue_time_seconds": 3,
        }.items():
            assert found[f"{name}_count{{}}"] == count
            assert found[f"{name}_bucket{{le=+Inf}}"] == count
        assert found["num_requests_running{}"] == found["num_requests_waiting{}"] == found["draining{}"] == 0
        assert found["state{state=ready}"] == 1
        assert found["tokens_per_second{}"] == pytest.approx(3 * made / 10)
        assert found["resident_memory_bytes{}"] > 1e7
        assert found["artifact_info{checkpoint=fake,digest=sha256:0,variant=v}"] == 1


async def test_a_stop_string_counts_as_a_stop(folder: Path) -> None:
    async with scene(folder) as one:
        one.says("The weather in Paris is fine today")
        await one.complete(stop="Paris", max_tokens=50)
        await one.idle()
        found = await figures(one)
        assert found["request_success_total{finished_reason=stop}"] == 1


async def test_the_models_are_listed_as_the_client_wants_them(folder: Path) -> None:
    async with scene(folder, model_name="mine") as one:
        body = (await one.client.get("/v1/models")).json()
        assert body["object"] == "list"
        [card] = body["data"]
        Model.model_validate(card, strict=True)
        assert (card["id"], card["max_model_len"]) == ("mine", KV_MAX)
        assert (await one.client.get("/v1/models/mine")).json() == card


async def test_the_status_page_needs_nothing_from_elsewhere(folder: Path) -> None:
    async with scene(folder, model_name="<b>mine</b>") as one:
        await one.complete()
        response = await one.client.get("/")
        page = response.text
        assert response.headers["content-type"].startswith("text/html")
        assert "&lt;b&gt;mine" in page
        assert "<b>" not in page
        assert "sha256:0" in page
        assert '<span id="state">ready</span>' in page
        assert "0 of 2" in page
        assert "ms at the median" in page
        assert not re.search(r"(src|href)=\"(https?:)?//", page)
        assert "<script" not in page


async def test_the_document_names_every_answer(folder: Path) -> None:
    async with scene(folder) as one:
        document = (await one.client.get("/openapi.json")).json()
        assert "422" not in str(document["paths"])
        assert set(document["paths"]) == {
            "/",
            "/generate",
            "/health",
            "/metrics",
            "/ready",
            "/v1/chat/completions",
            "/v1/completions",
            "/v1/models",
            "/v1/models/{model}",
        }
        for path in ("/v1/chat/completions", "/v1/completions", "/generate"):
            answers = document["paths"][path]["post"]["responses"]
            assert set(answers) == {"200", "400", "401", "404", "413", "429", "500", "503"}
            assert set(answers["200"]["content"]) == {"application/json", "text/event-stream"}
            for status, answer in answers.items():
                if status != "200":
                    ref = answer["content"]["application/json"]["schema"]["$ref"]
                    assert ref.endswith("/ErrorEnvelope")


async def test_answers_are_as_documented(folder: Path) -> None:
    async with scene(folder) as one:
        one.says("The weather")
        document = (await one.client.get("/openapi.json")).json()
        chat: dict[str, Any] = {"messages": [{"role": "user", "content": "Hello"}], "logprobs": True, "n": 2}
        for method, path, body in (
            ("POST", "/v1/chat/completions", chat),
            ("POST", "/v1/chat/completions", {"messages": []}),
            ("POST", "/v1/completions", {"prompt": "Hello", "logprobs": 2, "echo": True}),
            ("POST", "/generate", {"prompt": "Hello"}),
            ("GET", "/v1/models", None),
            ("GET", "/health", None),
            ("GET", "/ready", None),
        ):
            response = await one.client.request(method, path, json=body)
            answer = document["paths"][path][method.lower()]["responses"][str(response.status_code)]
            schema = answer["content"]["application/json"]["schema"] | {"components": document["components"]}
            jsonschema.validate(response.json(), schema)


async def test_figures_know_the_drain(folder: Path) -> None:
    async with scene(folder) as one:
        one.desk.service.drain()
        found = await figures(one)
        assert (found["draining{}"], found["state{state=draining}"], found["state{state=ready}"]) == (1, 1, 0)
        assert '<span id="state">draining</span>' in (await one.client.get("/")).text

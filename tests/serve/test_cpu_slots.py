"""Several requests at once on the real runtime: each gets transformers' tokens, to the bit what it gets alone."""

from __future__ import annotations

from typing import Any

import pytest

from serve.engine import Engine, Request
from serve.sampling import GREEDY, Sampling
from tests.build import continuation, point
from tests.conftest import ArtifactOf
from tests.serve.noise import fill_buffers
from tests.serve.test_cpu import NO_STOP, prompt

# Prompt and answer: around bucket, window and ring, and up to the last position; more requests than slots.
REQUESTS = ((13, 31), (1, 20), (25, 3), (8, 36), (41, 3), (20, 12), (2, 1), (30, 14), (19, 25))


@pytest.mark.parametrize(("batch", "tp"), [(4, 1), (2, 2)])
def test_requests_that_come_and_go_get_transformers_tokens(
    artifact_of: ArtifactOf, random_model: Any, monkeypatch: pytest.MonkeyPatch, batch: int, tp: int
) -> None:
    fill_buffers(monkeypatch)
    engine = Engine.load(artifact_of(point(batch=batch, tp=tp, name=f"batch{batch}-tp{tp}")))
    requests = []
    for number, (length, count) in enumerate(REQUESTS):
        requests.append(engine.submit(prompt(length), max_new=count, stop_ids=NO_STOP))
        for _ in range(number % 3):
            engine.step()
        if number == 5:
            leaving = engine.submit(prompt(9), max_new=30, stop_ids=NO_STOP)
        elif number == 7:
            engine.cancel(leaving)
    while engine.step():
        pass
    for (length, count), request in zip(REQUESTS, requests, strict=True):
        expected = continuation(random_model, prompt(length), count)
        assert [token.id for token in request.made] == expected, f"a prompt of {length} tokens"


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_company_does_not_change_a_bit(artifact_of: ArtifactOf, dtype: str) -> None:
    variant = point(batch=4, name="batch4-tp1") if dtype == "float32" else point(batch=4, dtype=dtype, name="batch4-bf")
    engine = Engine.load(artifact_of(variant))
    samplings = [GREEDY if number % 2 else Sampling(1.5, seed=number) for number in range(len(REQUESTS))]

    def submit(number: int) -> Request:
        (length, count), sampling = REQUESTS[number], samplings[number]
        return engine.submit(prompt(length), max_new=count, sampling=sampling, stop_ids=NO_STOP, top_logprobs=3)

    alone = []
    for number in range(len(REQUESTS)):
        alone.append(submit(number))
        while engine.step():
            pass
    together = [submit(number) for number in range(3)]
    for _ in range(4):
        engine.step()
    scores = engine.score(prompt(21), top_logprobs=3)
    together += [submit(number) for number in range(3, len(REQUESTS))]
    while engine.step():
        pass
    assert [request.made for request in together] == [request.made for request in alone]
    assert scores == engine.score(prompt(21), top_logprobs=3)

"""The other kinds of the family on the real runtime: saved artifacts, one rank and several, one slot and several."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from serve.engine import Engine
from tests.build import KIND_CONFIGS, build_artifact, continuation, point, random_model
from tests.serve.noise import fill_buffers
from tests.serve.test_cpu import NO_STOP, prompt

# Around the bucket, the window and the ring; the answers turn the ring again and end at the last position.
LENGTHS = (1, 8, 13, 21, 30, 41)


@pytest.fixture(scope="module", params=KIND_CONFIGS)
def made(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, Path]:
    """transformers' model of a kind, and the folder that its artifacts are built in."""
    return random_model(KIND_CONFIGS[request.param], seed=0), tmp_path_factory.mktemp(request.param)


@pytest.mark.parametrize(("tp", "batch"), [(1, 1), (2, 4), (4, 1)])
def test_greedy_tokens_are_transformers(
    made: tuple[Any, Path], tp: int, batch: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill_buffers(monkeypatch)
    model, folder = made
    engine = Engine.load(build_artifact(folder, model, point(tp=tp, batch=batch, name=f"tp{tp}")))
    requests = {length: engine.submit(prompt(length), max_new=44 - length, stop_ids=NO_STOP) for length in LENGTHS}
    while engine.step():
        pass
    for length, request in requests.items():
        expected = continuation(model, prompt(length), 44 - length)
        assert [token.id for token in request.made] == expected, f"a prompt of {length} tokens"
    if tp == 1:
        ids = prompt(44)
        with torch.no_grad():
            exact = torch.log_softmax(model(torch.tensor([ids])).logits[0].double(), -1)[range(43), ids[1:]]
        assert [score.logprob for score in engine.score(ids)[:-1]] == pytest.approx(exact.tolist(), abs=1e-4)
    engine.close()


def test_bfloat16_experts_are_no_further_off_than_transformers(tmp_path: Path) -> None:
    config, ids = KIND_CONFIGS["moe"], prompt(44)
    model, rounded = random_model(config, seed=0), random_model(config, seed=0).bfloat16()
    engine = Engine.load(build_artifact(tmp_path, model, point(dtype="bfloat16", name="bf16")))
    found = torch.tensor([score.logprob for score in engine.score(ids)[:-1]], dtype=torch.float64)
    with torch.no_grad():
        exact, library = (
            torch.log_softmax(each(torch.tensor([ids])).logits[0].double(), -1)[range(43), ids[1:]]
            for each in (model, rounded)
        )
    assert 0 < (found - exact).abs().mean() < 1.2 * (library - exact).abs().mean()

"""The engine over fake runtimes: what each step is given, when it stops, and what it refuses."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from serve.engine import Engine
from serve.errors import ServeError
from serve.sampling import Sampling
from tests.serve import fakes
from tests.serve.fakes import CHOSEN, FLOOR, LAYERS, PLE, VOCABULARY, Context, Recorder

KV_MAX, BUCKET, RING, WINDOW = 12, 4, 7, 3
NO_STOP: frozenset[int] = frozenset()


def recorded(folder: Path, script: Iterable[int] = (), **changes: Any) -> tuple[Engine, Recorder]:
    """An engine that says `script` and then 9s for ever."""
    made_for = fakes.manifest(KV_MAX, BUCKET, WINDOW, RING, **changes)
    recorder = Recorder(made_for, itertools.chain(script, itertools.repeat(9)))
    return fakes.engine(folder, made_for, recorder), recorder


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_answers_follow_from_exactly_the_tokens_so_far(tmp_path: Path, data: st.DataObject) -> None:
    window, bucket = data.draw(st.integers(1, 9)), data.draw(st.integers(1, 8))
    kv_max = data.draw(st.integers(2, 40))
    ring = min(kv_max, window + bucket - 1 + data.draw(st.integers(0, 1)))
    made_for = fakes.manifest(kv_max, bucket, window, max(ring, 1))
    engine = fakes.engine(tmp_path, made_for, Context(made_for))
    for _ in range(2):
        ids = data.draw(st.lists(st.integers(0, VOCABULARY - 1), min_size=1, max_size=kv_max - 1))
        wanted = data.draw(st.integers(1, kv_max))
        expected = ids.copy()
        while len(expected) < min(len(ids) + wanted, kv_max):
            expected.append(fakes.model_answer(expected, window))
        tokens = list(engine.generate(ids, max_new=wanted, stop_ids=NO_STOP))
        assert [token.id for token in tokens] == expected[len(ids) :]
        assert [token.finish for token in tokens] == [None] * (len(tokens) - 1) + ["length"]
        chosen = [score.argmax for score in engine.score(ids)]
        assert chosen == [fakes.model_answer(ids[: n + 1], window) for n in range(len(ids))]


def test_a_prompt_is_prefilled_in_buckets_and_continued_token_by_token(tmp_path: Path) -> None:
    engine, recorder = recorded(tmp_path)
    assert len(list(engine.generate(range(10, 20), max_new=3))) == 2
    assert [graph for graph, _ in recorder.steps] == ["prefill"] * 3 + ["decode"]
    assert recorder.positions() == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 9, 9], [10]]
    embedded = [inputs["inputs_embeds"][0, :, 0].tolist() for _, inputs in recorder.steps]
    assert embedded[:2] == [[10, 11, 12, 13], [14, 15, 16, 17]]
    assert embedded[2][:2] == [18, 19]
    assert embedded[3] == [9]


def test_per_layer_rows_go_to_every_layer(tmp_path: Path) -> None:
    engine, recorder = recorded(tmp_path)
    list(engine.generate([21], max_new=2))
    scale = np.float32(math.sqrt(PLE))
    for (_, inputs), token in zip(recorder.steps, (21, 9), strict=True):
        assert (inputs["per_layer_inputs"][0, 0] == np.full((LAYERS, PLE), np.float32(token) * scale)).all()


def test_padding_is_neither_written_nor_read_last(tmp_path: Path) -> None:
    engine, recorder = recorded(tmp_path)
    list(engine.generate([5, 6], max_new=1))
    inputs = recorder.steps[0][1]
    assert inputs["last"].tolist() == [[0, 1, 0, 0]]
    for name in ("full_select", "sliding_select"):
        assert np.argwhere(inputs[name][0, 0]).tolist() == [[0, 0], [1, 1]]
        assert set(np.unique(inputs[name])) == {0, 1}


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_masks_are_zero_or_the_lowest_finite_number(tmp_path: Path, dtype: str) -> None:
    engine, recorder = recorded(tmp_path, dtype=dtype)
    list(engine.generate(range(10, 16), max_new=1))
    inputs = recorder.steps[1][1]
    lowest = torch.finfo(getattr(torch, dtype)).min
    # Positions 4, 5, 5, 5 of a ring of 7 that has not wrapped, with a window of 3.
    for name, shown in {
        "full_mask": [{0, 1, 2, 3, 4}, {0, 1, 2, 3, 4, 5}, {0, 1, 2, 3, 4, 5}, {0, 1, 2, 3, 4, 5}],
        "sliding_mask": [{2, 3, 4}, {3, 4, 5}, {3, 4, 5}, {3, 4, 5}],
    }.items():
        mask = inputs[name][0, 0].astype(np.float64)
        assert [set(np.flatnonzero(row == 0).tolist()) for row in mask] == shown
        assert set(np.unique(mask)) == {0.0, lowest}


def test_a_stop_id_is_yielded_and_ends_the_answer(tmp_path: Path) -> None:
    engine, recorder = recorded(tmp_path, [7, 1, 8])
    tokens = list(engine.generate([5], max_new=9))
    assert [(token.id, token.finish) for token in tokens] == [(7, None), (1, "stop")]
    assert len(recorder.steps) == 2


def test_stop_ids_of_the_caller_replace_the_checkpoints(tmp_path: Path) -> None:
    engine, _ = recorded(tmp_path, [1, 8, 7])
    tokens = list(engine.generate([5], max_new=9, stop_ids=frozenset({7})))
    assert [token.id for token in tokens] == [1, 8, 7]
    assert tokens[-1].finish == "stop"


def test_a_stop_id_at_the_limit_is_a_stop(tmp_path: Path) -> None:
    engine, _ = recorded(tmp_path, [1])
    assert [token.finish for token in engine.generate([5], max_new=1)] == ["stop"]


@pytest.mark.parametrize(("prompt", "max_new", "made"), [(1, 5, 5), (1, 99, 11), (11, 5, 1), (7, 5, 5)])
def test_length_is_max_new_or_what_the_buffers_hold(tmp_path: Path, prompt: int, max_new: int, made: int) -> None:
    engine, recorder = recorded(tmp_path)
    tokens = list(engine.generate([5] * prompt, max_new=max_new, stop_ids=NO_STOP))
    assert len(tokens) == made
    assert [token.finish for token in tokens] == [None] * (made - 1) + ["length"]
    decodes = [graph for graph, _ in recorder.steps if graph == "decode"]
    assert len(decodes) == made - 1


@pytest.mark.parametrize(
    ("ids", "words"),
    [
        ([], "the prompt has 0 tokens; 1 to 11 are accepted"),
        ([5] * 12, "the prompt has 12 tokens; 1 to 11 are accepted"),
        ([5, VOCABULARY], "token id 50; 0 to 49 are accepted"),
        ([5, -1], "token id -1; 0 to 49 are accepted"),
    ],
)
def test_a_prompt_that_does_not_fit_is_refused_at_once(tmp_path: Path, ids: list[int], words: str) -> None:
    engine, recorder = recorded(tmp_path)
    with pytest.raises(ServeError, match=words):
        engine.generate(ids, max_new=1)
    if len(ids) != KV_MAX:
        with pytest.raises(ServeError, match=words.replace("11", "12")):
            engine.score(ids)
    assert not recorder.steps


@pytest.mark.parametrize("max_new", [0, -1])
def test_an_answer_of_no_tokens_is_refused_at_once(tmp_path: Path, max_new: int) -> None:
    engine, recorder = recorded(tmp_path)
    with pytest.raises(ServeError, match=f"max_new is {max_new}; 1 or more is accepted"):
        engine.generate([5], max_new=max_new)
    assert not engine.step()
    assert not recorder.steps


def test_a_later_request_waits_for_the_only_slot(tmp_path: Path) -> None:
    engine, recorder = recorded(tmp_path)
    first, second = engine.generate([5], max_new=3), engine.generate([6], max_new=2)
    assert next(second).finish is None
    assert [graph for graph, _ in recorder.steps] == ["prefill", "decode", "decode", "prefill"]
    assert [token.finish for token in first] == [None, None, "length"]
    assert next(second).finish == "length"
    assert len(recorder.steps) == 5


def test_log_probabilities_come_only_when_asked_for(tmp_path: Path) -> None:
    engine, _ = recorded(tmp_path)
    plain, bare, full = (next(engine.generate([5], max_new=1, top_logprobs=n)) for n in (None, 0, 3))
    assert (plain.logprob, plain.top) == (None, ())
    total = math.log(math.exp(CHOSEN) + (VOCABULARY - 1) * math.exp(FLOOR))
    assert bare.logprob == pytest.approx(CHOSEN - total, rel=1e-5)
    assert bare.top == ()
    assert [id_ for id_, _ in full.top] == [9, 0, 1]
    assert [value for _, value in full.top] == pytest.approx([CHOSEN - total, -total, -total], rel=1e-5)


def test_suppressed_ids_are_out_of_every_answer(tmp_path: Path) -> None:
    engine, _ = recorded(tmp_path, suppress=(9, 0))
    token = next(engine.generate([5], max_new=1, top_logprobs=1))
    assert (token.id, token.top[0][0]) == (1, 1)
    assert token.logprob == pytest.approx(-math.log(VOCABULARY - 2), rel=1e-5)
    scores = engine.score([5, 9, 6])
    assert scores[0].argmax == 1
    assert scores[0].logprob == -math.inf
    assert scores[1].logprob == pytest.approx(-math.log(VOCABULARY - 2), rel=1e-5)


def test_scores_come_from_decode_steps_one_per_token(tmp_path: Path) -> None:
    engine, recorder = recorded(tmp_path, [6, 8, 9])
    scores = engine.score([5, 6, 7], top_logprobs=2)
    assert [graph for graph, _ in recorder.steps] == ["decode"] * 3
    assert recorder.positions() == [[0], [1], [2]]
    total = math.log(math.exp(CHOSEN) + (VOCABULARY - 1) * math.exp(FLOOR))
    assert [score.argmax for score in scores] == [6, 8, 9]
    assert [score.logprob for score in scores[:2]] == pytest.approx([CHOSEN - total, FLOOR - total], rel=1e-5)
    assert scores[2].logprob is None
    assert [score.top[0][0] for score in scores] == [6, 8, 9]
    assert len(engine.score([5] * KV_MAX)) == KV_MAX


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_a_scored_prompt_is_scored_and_continued_beside_others(tmp_path: Path, data: st.DataObject) -> None:
    batch = data.draw(st.integers(1, 3))
    made_for = fakes.manifest(KV_MAX, BUCKET, WINDOW, RING, batch=batch)
    engine = fakes.engine(tmp_path, made_for, Context(made_for))
    prompts = st.lists(st.integers(0, VOCABULARY - 1), min_size=1, max_size=KV_MAX - 1)
    asked = data.draw(st.lists(st.tuples(prompts, st.integers(0, 4), st.booleans()), min_size=1, max_size=5))
    sent = []
    for ids, wanted, scored in asked:
        top_scores = 2 if scored else None
        budget = wanted if scored else wanted + 1
        sent.append(engine.submit(ids, max_new=budget, stop_ids=NO_STOP, top_logprobs=1, top_scores=top_scores))
    while engine.step():
        pass
    for (ids, wanted, scored), request in zip(asked, sent, strict=True):
        assert request.done
        assert list(request.scores) == (engine.score(ids, top_logprobs=2) if scored else [])
        budget = wanted if scored else wanted + 1
        alone = engine.generate(ids, max_new=budget, stop_ids=NO_STOP, top_logprobs=1) if budget else ()
        assert list(request.made) == list(alone)


def test_a_prompt_may_fill_every_row_when_it_is_only_scored(tmp_path: Path) -> None:
    engine, _ = recorded(tmp_path)
    request = engine.submit([5] * KV_MAX, max_new=0, top_scores=0)
    while engine.step():
        pass
    assert (len(request.scores), len(request.made)) == (KV_MAX, 0)
    with pytest.raises(ServeError, match="12 tokens; 1 to 11 are accepted"):
        engine.submit([5] * KV_MAX, max_new=1, top_scores=0)
    with pytest.raises(ServeError, match="max_new is -1; 0 or more"):
        engine.submit([5], max_new=-1, top_scores=0)


def test_room_counts_what_the_next_step_admits(tmp_path: Path) -> None:
    engine, _ = recorded(tmp_path, batch=2)
    assert engine.room == 2
    first = engine.submit([5], max_new=5)
    assert engine.room == 1
    engine.submit([5], max_new=5)
    third = engine.submit([5], max_new=5)
    assert engine.room == 0
    engine.step()
    engine.cancel(third)
    assert engine.room == 0
    engine.cancel(first)
    assert engine.room == 1


def test_biases_and_penalties_shape_what_is_chosen_and_told(tmp_path: Path) -> None:
    engine, _ = recorded(tmp_path)
    sampling = Sampling(logit_bias=((9, -CHOSEN - 1), (3, 2.0)), presence_penalty=2.0)
    tokens = list(engine.generate([5], max_new=3, sampling=sampling, top_logprobs=1))
    # 3 leads by its bias, then both are level with or below the others, of which the lowest comes first.
    assert [token.id for token in tokens] == [3, 0, 1]
    total = math.log(math.exp(2.0) + math.exp(-1.0) + (VOCABULARY - 2))
    assert tokens[0].logprob == pytest.approx(2.0 - total, rel=1e-5)
    with pytest.raises(ServeError, match="logit_bias holds token id 50"):
        engine.submit([5], max_new=1, sampling=Sampling(logit_bias=((VOCABULARY, 1.0),)))


def test_sampling_is_seeded_per_request(tmp_path: Path) -> None:
    engine, _ = recorded(tmp_path)

    def answer(seed: int) -> list[int]:
        sampling = Sampling(temperature=5.0, seed=seed)
        return [token.id for token in engine.generate([5], max_new=11, sampling=sampling, stop_ids=NO_STOP)]

    assert answer(1) == answer(1) != answer(2)


def test_close_releases_the_runtime(tmp_path: Path) -> None:
    engine, recorder = recorded(tmp_path)
    engine.close()
    assert recorder.closed

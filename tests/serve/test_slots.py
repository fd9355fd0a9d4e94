"""Many requests in a few slots: each is answered as if it were alone, in the order in which they came, without a pause.

The runtime is `fakes.Context`: it keeps rows per slot, written only through the inputs that a step is given, and its
logits follow from the rows that the masks show. A row in the wrong slot, or one too many, changes a token.
"""

from __future__ import annotations

import gc
import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from serve.engine import Engine, Request, Score, Token
from serve.errors import ServeError
from serve.sampling import GREEDY, Sampling
from tests.serve import fakes
from tests.serve.fakes import VOCABULARY, Context, Recorder

NO_STOP: frozenset[int] = frozenset()
IDS = st.integers(0, VOCABULARY - 1)
SAMPLINGS = st.just(GREEDY) | st.builds(Sampling, st.just(2.0), top_k=st.sampled_from([0, 9]), seed=st.integers(0, 9))


@dataclass(frozen=True)
class Size:
    """What a pair of engines has in common."""

    kv_max: int
    bucket: int
    window: int

    def engine(self, folder: Path, batch: int) -> tuple[Engine, Context]:
        """An engine with `batch` slots, whose rings are as short as they may be."""
        ring = min(self.kv_max, self.window + self.bucket - 1)
        made_for = fakes.manifest(self.kv_max, self.bucket, self.window, ring, batch=batch)
        context = Context(made_for)
        return fakes.engine(folder, made_for, context), context


@dataclass(frozen=True)
class Ask:
    """A request that comes `after` steps after the one before, and is cancelled `patience` steps after it came."""

    ids: list[int]
    keywords: dict[str, Any]
    after: int
    patience: int | None


@st.composite
def sizes(draw: st.DrawFn) -> Size:
    kv_max = draw(st.integers(2, 24))
    return Size(kv_max, draw(st.integers(1, min(kv_max, 6))), draw(st.integers(1, 6)))


def prompts(size: Size) -> st.SearchStrategy[list[int]]:
    return st.lists(IDS, min_size=1, max_size=size.kv_max - 1)


def options(size: Size) -> st.SearchStrategy[dict[str, Any]]:
    """Keyword arguments of a request."""
    return st.fixed_dictionaries(
        {
            "max_new": st.integers(1, size.kv_max),
            "sampling": SAMPLINGS,
            "stop_ids": st.frozensets(IDS, max_size=12),
            "top_logprobs": st.sampled_from([None, 2]),
        }
    )


def asks(size: Size) -> st.SearchStrategy[list[Ask]]:
    after, patience = st.sampled_from([0, 0, 0, 1, 3]), st.none() | st.none() | st.integers(0, 15)
    ask = st.builds(Ask, prompts(size), options(size), after, patience)
    return st.integers(1, 12).flatmap(lambda count: st.lists(ask, min_size=count, max_size=count))


class Desk:
    """Drives an engine and knows, from the order of arrivals alone, what each step owes to whom."""

    def __init__(self, engine: Engine, context: Context, size: Size, batch: int) -> None:
        self._engine, self._context, self._size, self._batch = engine, context, size, batch
        self._live: list[Request] = []
        self._held: list[Request] = []
        self.sent: list[Request] = []

    def submit(self, ask: Ask) -> Request:
        request = self._engine.submit(ask.ids, **ask.keywords)
        self._live.append(request)
        self.sent.append(request)
        return request

    def cancel(self, request: Request) -> None:
        self._engine.cancel(request)
        self._tidy()

    def _tidy(self) -> None:
        self._live, self._held = ([one for one in some if not one.done] for some in (self._live, self._held))

    def step(self) -> bool:
        """One step. The oldest requests hold the slots, whoever has a token gets the next, the oldest other a chunk."""
        self._held = self._live[: self._batch]
        progress = {id(request): (request.filled, len(request.made)) for request in self.sent}
        filling = next((request for request in self._held if not request.made), None)
        if filling is not None:
            filled = min(filling.filled + self._size.bucket, len(filling.ids))
            progress[id(filling)] = (filled, int(filled == len(filling.ids)))
        decoding = [request for request in self._held if request.made]
        for request in decoding:
            progress[id(request)] = (len(request.ids), len(request.made) + 1)
        calls = len(self._context.calls)
        busy = self._engine.step()
        assert {id(request): (request.filled, len(request.made)) for request in self.sent} == progress
        expected = ["prefill"] * (filling is not None) + ["decode"] * bool(decoding)
        assert self._context.calls[calls:] == expected
        assert busy == bool(expected)
        self._tidy()
        return busy

    def score(self, ids: list[int]) -> list[Score] | None:
        """The scores of `ids`, or None where they are refused, which is when every slot is held."""
        if len(self._held) < self._batch:
            return self._engine.score(ids)
        with pytest.raises(ServeError, match=f"all {self._batch} slots are taken"):
            self._engine.score(ids)
        return None


def played(desk: Desk, schedule: Sequence[Ask], scored: dict[int, list[int]]) -> dict[int, list[Score] | None]:
    """Run a schedule to its end; `scored` says before which steps a prompt is scored, and the answers come back."""
    arrivals = list(itertools.accumulate(ask.after for ask in schedule))
    leaving: list[tuple[int, Request]] = []
    scores = {}
    for now in itertools.count():
        for ask in (ask for ask, then in zip(schedule, arrivals, strict=True) if then == now):
            request = desk.submit(ask)
            if ask.patience is not None:
                leaving.append((now + ask.patience, request))
        for request in (request for then, request in leaving if then == now):
            desk.cancel(request)
        if now in scored:
            scores[now] = desk.score(scored[now])
        if not desk.step() and now >= max(arrivals):
            return scores
    raise AssertionError


@settings(max_examples=1000, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_every_request_is_answered_as_if_it_were_alone(tmp_path: Path, data: st.DataObject) -> None:
    size, batch = data.draw(sizes()), data.draw(st.integers(2, 8))
    schedule = data.draw(asks(size))
    scored = data.draw(st.dictionaries(st.integers(0, 20), prompts(size), max_size=2))
    desk = Desk(*size.engine(tmp_path, batch), size, batch)
    scores = played(desk, schedule, scored)

    alone, _ = size.engine(tmp_path, 1)
    for ask, request in zip(schedule, desk.sent, strict=True):
        expected = list(alone.generate(ask.ids, **ask.keywords))
        made = list(request.made)
        assert request.done
        assert made == (expected if ask.patience is None else expected[: len(made)])
    for now, found in scores.items():
        assert found is None or found == alone.score(scored[now])


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_iterators_take_turns_in_any_order(tmp_path: Path, data: st.DataObject) -> None:
    size, batch = data.draw(sizes()), data.draw(st.integers(1, 3))
    engine, _ = size.engine(tmp_path, batch)
    calls = data.draw(st.lists(st.tuples(prompts(size), options(size)), min_size=1, max_size=6))
    answers = [engine.generate(ids, **keywords) for ids, keywords in calls]
    found: list[list[Token]] = [[] for _ in answers]
    open_ones = set(range(len(answers)))
    dropped = set()
    while open_ones:
        one = data.draw(st.sampled_from(sorted(open_ones)))
        if data.draw(st.integers(0, 15)) == 0:
            answers[one].close()
            open_ones.remove(one)
            dropped.add(one)
        elif (token := next(answers[one], None)) is None:
            open_ones.remove(one)
        else:
            found[one].append(token)
    assert not engine.step()
    alone, _ = size.engine(tmp_path, 1)
    for one, (ids, keywords) in enumerate(calls):
        expected = list(alone.generate(ids, **keywords))
        assert found[one] == (expected[: len(found[one])] if one in dropped else expected)


@pytest.fixture
def pair(tmp_path: Path) -> tuple[Engine, Context]:
    """An engine with two slots of 12 rows, and buckets of 4."""
    return Size(12, 4, 3).engine(tmp_path, 2)


@pytest.mark.parametrize("begun", [False, True])
def test_a_closed_iterator_gives_its_slot_back(pair: tuple[Engine, Context], begun: bool) -> None:
    engine, context = pair
    answers = [engine.generate([5, n], max_new=9, stop_ids=NO_STOP) for n in range(3)]
    for answer in answers:
        if begun:
            next(answer)
        answer.close()
    assert not engine.step()
    assert context.calls == ["prefill"] * (3 * begun)


def test_an_iterator_may_be_collected_in_the_middle_of_a_step(pair: tuple[Engine, Context]) -> None:
    engine, context = pair
    kept = engine.submit([5], max_new=4, stop_ids=NO_STOP)
    cycle: list[Any] = [engine.generate([6], max_new=9, stop_ids=NO_STOP)]
    cycle.append(cycle)
    engine.step()
    engine.step()
    step = context.step

    def collecting(graph: Any) -> Any:
        gc.collect()
        return step(graph)

    context.step = collecting  # type: ignore[method-assign]
    del cycle
    while engine.step():
        pass
    assert [len(kept.made), context.calls.count("decode")] == [4, 3]


def test_a_cancelled_request_that_waits_never_runs(pair: tuple[Engine, Context]) -> None:
    engine, context = pair
    running = [engine.submit([5, n], max_new=3, stop_ids=NO_STOP) for n in range(2)]
    waiting, last = (engine.submit([6, n], max_new=3, stop_ids=NO_STOP) for n in range(2))
    engine.step()
    engine.cancel(waiting)
    while engine.step():
        pass
    assert [len(request.made) for request in (*running, waiting, last)] == [3, 3, 0, 3]
    assert context.calls.count("prefill") == 3
    engine.cancel(last)
    assert not engine.step()


def recorded(folder: Path, dtype: str) -> tuple[Engine, Recorder]:
    """An engine with three slots that says 9s."""
    made_for = fakes.manifest(12, 4, 3, 6, dtype=dtype, batch=3)
    recorder = Recorder(made_for, itertools.repeat(9))
    return fakes.engine(folder, made_for, recorder), recorder


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_a_chunk_is_for_one_slot_and_a_decode_step_for_all(tmp_path: Path, dtype: str) -> None:
    engine, recorder = recorded(tmp_path, dtype)
    for n in range(3):
        engine.submit([20 + n] * (1 + 3 * n), max_new=9)
    while len(recorder.steps) < 8:
        engine.step()
    graphs = [graph for graph, _ in recorder.steps]
    assert graphs == ["prefill", "prefill", "decode", "prefill", "decode", "prefill", "decode", "decode"]
    chosen = [inputs["slot"].astype(int).tolist() for graph, inputs in recorder.steps if graph == "prefill"]
    assert chosen == [[1, 0, 0], [0, 1, 0], [0, 0, 1], [0, 0, 1]]
    decodes = [inputs for graph, inputs in recorder.steps if graph == "decode"]
    assert [inputs["position_ids"].tolist() for inputs in decodes] == [
        [[1], [0], [0]],
        [[2], [4], [0]],
        [[3], [5], [0]],
        [[4], [6], [7]],
    ]
    selectors = ("full_select", "sliding_select")
    written = [[np.argwhere(inputs[name][:, 0, :, 0]).tolist() for inputs in decodes] for name in selectors]
    assert written[0] == [[[0, 1]], [[0, 2], [1, 4]], [[0, 3], [1, 5]], [[0, 4], [1, 6], [2, 7]]]
    assert written[1] == [[[0, 1]], [[0, 2], [1, 4]], [[0, 3], [1, 5]], [[0, 4], [1, 0], [2, 1]]]
    assert [inputs["inputs_embeds"].ravel().tolist() for inputs in decodes[1:]] == [[9, 9, 0], [9, 9, 0], [9, 9, 9]]
    assert [len(np.unique(inputs["per_layer_inputs"])) for inputs in decodes] == [2, 2, 2, 1]
    shown = [np.flatnonzero(row == 0).tolist() for row in decodes[-1]["sliding_mask"][:, 0, 0]]
    assert shown == [[2, 3, 4], [0, 4, 5], [0, 1, 5]]


def test_slots_are_used_in_turn(tmp_path: Path) -> None:
    engine, recorder = recorded(tmp_path, "float32")
    for n in range(4):
        list(engine.generate([5], max_new=1))
        if n == 1:
            engine.score([5])
    chosen = [int(inputs["slot"].argmax()) for graph, inputs in recorder.steps if graph == "prefill"]
    scored = [np.argwhere(inputs["full_select"])[0, 0] for graph, inputs in recorder.steps if graph == "decode"]
    assert (chosen, scored) == ([0, 1, 0, 1], [2])

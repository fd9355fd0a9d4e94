"""Artifacts whose one graph serves prefill and decode: the same answers, a decode step being a chunk of one token."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from serve.errors import ServeError
from serve.fit import check_fit
from serve.manifest import GraphName, Manifest, Output, Point
from tests.serve import fakes
from tests.serve.fakes import VOCABULARY, Context

NO_STOP: frozenset[int] = frozenset()


def single(kv_max: int, bucket: int, window: int, ring: int) -> Manifest:
    """The fakes' manifest without its decode graph."""
    made_for = fakes.manifest(kv_max, bucket, window, ring)
    return made_for.model_copy(update={"graphs": {"prefill": made_for.graphs["prefill"]}})


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_answers_follow_from_exactly_the_tokens_so_far(tmp_path: Path, data: st.DataObject) -> None:
    window, bucket = data.draw(st.integers(1, 9)), data.draw(st.integers(1, 8))
    kv_max = data.draw(st.integers(2, 30))
    made_for = single(kv_max, bucket, window, max(1, min(kv_max, window + bucket)))
    runtime = Context(made_for)
    engine = fakes.engine(tmp_path, made_for, runtime)
    for _ in range(2):
        ids = data.draw(st.lists(st.integers(0, VOCABULARY - 1), min_size=1, max_size=kv_max - 1))
        wanted = data.draw(st.integers(1, kv_max))
        expected = ids.copy()
        while len(expected) < min(len(ids) + wanted, kv_max):
            expected.append(fakes.model_answer(expected, window))
        assert [token.id for token in engine.generate(ids, max_new=wanted, stop_ids=NO_STOP)] == expected[len(ids) :]
        chosen = [score.argmax for score in engine.score(ids)]
        assert chosen == [fakes.model_answer(ids[: n + 1], window) for n in range(len(ids))]
    assert set(runtime.calls) == {"prefill"}


def fitting(graphs: tuple[GraphName, ...], builder: str, kv: str, modules: int = 1) -> Manifest:
    """A manifest of tp `modules` that is right in all but, perhaps, its graphs."""
    found = fakes.manifest(12, 4, 3, 7)
    logits = Output(name="logits", role="logits", shape=(1, VOCABULARY), dtype="float32")
    states = ({"name": "k.0", "role": "state", "shape": (1, 1, 12, 1), "dtype": "float32"},)
    point = found.variant.model_dump() | {"builder": builder, "kv": kv, "target": "inf2", "tp": modules}
    document = found.model_dump() | {"variant": Point.model_validate(point).model_dump(), "graphs": {}}
    document["weights"] = document["weights"] * modules if builder == "nxd" else ()
    for name in graphs:
        graph = found.graphs[name].model_dump()
        graph["modules"] = graph["modules"] * modules
        graph["signature"]["parameters"] += states
        graph["signature"]["outputs"] = (logits.model_dump(),)
        document["graphs"][name] = graph
    return Manifest.model_validate(document)


@pytest.mark.parametrize(
    ("graphs", "builder", "kv", "modules"),
    [
        (("prefill",), "trace", "device", 1),
        (("prefill",), "parallel", "device", 2),
        (("prefill", "decode"), "trace", "host", 1),
        (("prefill", "decode"), "nxd", "device", 2),
    ],
)
def test_each_builder_has_its_graphs(graphs: tuple[GraphName, ...], builder: str, kv: str, modules: int) -> None:
    check_fit(Path("artifact"), fitting(graphs, builder, kv, modules))


@pytest.mark.parametrize(
    ("graphs", "builder", "kv", "sentence"),
    [
        (("prefill", "decode"), "trace", "device", "graphs: found decode; accepted: prefill"),
        (("prefill",), "trace", "host", "graphs: found no decode; accepted: prefill and decode"),
        (("prefill",), "nxd", "device", "graphs: found no decode; accepted: prefill and decode"),
        (("decode",), "parallel", "device", "graphs: found no prefill; accepted: prefill"),
    ],
)
def test_graphs_of_another_builder_are_refused(
    graphs: tuple[GraphName, ...], builder: str, kv: str, sentence: str
) -> None:
    with pytest.raises(ServeError, match=f"{sentence}$"):
        check_fit(Path("artifact"), fitting(graphs, builder, kv))


def test_ranks_are_counted_by_files_where_weights_are_inside(tmp_path: Path) -> None:
    wrong = fitting(("prefill",), "parallel", "device", 2)
    wrong = wrong.model_copy(update={"variant": wrong.variant.model_copy(update={"tp": 4})})
    with pytest.raises(ServeError, match=r"variant\.tp: found 4; accepted: 2"):
        check_fit(tmp_path, wrong)

"""Edges from digests, and where boxes go."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledger.receipts import Receipt
from tests.validate.report.made import Made
from validate.report import graph
from validate.report.run import Node, Run, read


def pairs(found: list[graph.Edge], *, implied: bool) -> set[tuple[str, str]]:
    return {(edge.source.name, edge.target.name) for edge in found if edge.implied is implied}


def test_edges_are_the_digests_that_receipts_hold(whole: Made) -> None:
    found, strange = graph.edges(read([whole.receipts]).nodes)
    assert strange == []
    assert pairs(found, implied=False) == {
        *(("fetch", "tables"), ("fetch", "weights/cpu-float32-tp1"), ("fetch", "prompts/512-128")),
        ("prompts/512-128", "oracle/512-128"),
        *(edge for name in ("512-128", "bf16") for edge in chain(name)),
    }
    # The others say what a longer way says too.
    assert ("fetch", "oracle/512-128") in pairs(found, implied=True)
    assert ("512-128/lower", "package") in pairs(found, implied=True)


def chain(name: str) -> list[tuple[str, str]]:
    return [
        ("fetch", f"{name}/lower"),
        (f"{name}/lower", f"{name}/compile"),
        (f"{name}/compile", f"{name}/assemble"),
        ("tables", f"{name}/assemble"),
        ("weights/cpu-float32-tp1", f"{name}/assemble"),
        (f"{name}/assemble", f"{name}/parity"),
        ("oracle/512-128", f"{name}/parity"),
        (f"{name}/parity", f"{name}/bench"),
        (f"{name}/bench", "package"),
    ]


def test_variants_that_made_the_same_thing_keep_to_their_own(whole: Made) -> None:
    run = read([whole.receipts])
    lower, other = (run.receipts("demo", name)["lower"] for name in ("512-128", "bf16"))
    assert lower.digest == other.digest
    found, _ = graph.edges(run.nodes)
    assert ("512-128/lower", "bf16/compile") not in pairs(found, implied=False) | pairs(found, implied=True)


def test_an_input_that_is_not_among_the_receipts_is_named(tmp_path: Path) -> None:
    made = Made(tmp_path)
    made.variant("one")
    made.write("one/parity", facts={"prompts": 1, "tokens": 1, "mismatches": [], "exemptions": []}, verdict="passed")
    _, strange = graph.edges(read([made.receipts]).nodes)
    assert [(node.name, label) for node, label in strange] == [("one/bench", "parity")]


def drawn(run: Run) -> graph.Picture:
    nodes = run.of("demo")
    return graph.draw(nodes, graph.edges(nodes)[0])


@pytest.mark.parametrize("which", ["whole", "broken"])
def test_every_node_has_one_box_of_its_own_inside_the_picture(which: str, request: pytest.FixtureRequest) -> None:
    run = read([request.getfixturevalue(which).receipts])
    picture = drawn(run)
    assert {box.node for box in picture.boxes} == set(run.nodes)
    assert len(picture.boxes) == len(run.nodes)
    for box in picture.boxes:
        assert 0 <= box.x <= picture.width - graph.WIDTH
        assert 0 <= box.y <= picture.height - graph.HEIGHT
    apart = [
        abs(one.x - two.x) >= graph.WIDTH or abs(one.y - two.y) >= graph.HEIGHT
        for at, one in enumerate(picture.boxes)
        for two in picture.boxes[at + 1 :]
    ]
    assert all(apart)


def test_columns_follow_the_line_and_rows_the_variants(broken: Made) -> None:
    picture = drawn(read([broken.receipts]))
    at = {box.node.name: (box.x, box.y) for box in picture.boxes}
    for variant in ("512-128", "bf16", "late"):
        line = [at[f"{variant}/{stage}"] for stage in ("lower", "compile", "assemble", "parity", "bench")]
        assert len({y for _, y in line}) == 1
        assert [x for x, _ in line] == sorted({x for x, _ in line})
    assert at["package"][0] == max(x for x, _ in at.values())
    assert [text for text, _ in picture.labels] == ["512-128", "bf16", "late"]


def test_a_new_stage_between_two_gets_a_column_between_them(tmp_path: Path) -> None:
    made = Made(tmp_path)
    made.variant("one")
    made.write("one/lint", after=["one/lower"], verdict="passed")
    made.write("one/compile", after=["one/lower", "one/lint"])
    at = {box.node.name: box.x for box in drawn(read([made.receipts])).boxes}
    assert at["one/lower"] < at["one/lint"] < at["one/compile"] < at["one/assemble"]


@given(st.lists(st.lists(st.integers(0, 7), max_size=4), min_size=1, max_size=8))
def test_any_receipts_end_in_a_picture_even_in_a_circle(named: list[list[int]]) -> None:
    """Stage numbers name each other as they like, which no run can do and a forger can."""
    blank = {"key": "0" * 64, "recipe": {}, "outputs": {}, "facts": {}, "measured": {}, "toolchain": {}, "source": ""}
    nodes = [Node("c", f"s{n}", Receipt(stage=f"s{n}", inputs={}, verdict="done", **blank)) for n in range(len(named))]
    found = [graph.Edge(nodes[one % len(nodes)], nodes[n]) for n, others in enumerate(named) for one in others]
    assert len(graph.draw(nodes, found).boxes) == len(nodes)

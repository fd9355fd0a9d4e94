"""The plan as text."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from recipes.plan.table import plan_lines
from tests.recipes.plan.conftest import ERROR, WARNING, Maker


def test_what_a_person_must_know_is_under_the_table(maker: Callable[[str], Maker]) -> None:
    works = maker("E2B").row(WARNING, name="slim", slim=True)
    fails = maker("E4B").row(ERROR, name="tp2", tp=2, slim=True)
    lines = plan_lines([(works, []), (fails, ["one reason", "another"])])
    assert lines[1].split()[:5] == ["checkpoint", "slim", "ok,", "3", "warn"]
    assert lines[1].endswith("inf2.xlarge") and lines[2].endswith("none")
    assert lines[2].split()[:4] == ["checkpoint", "tp2", "1", "errors"]
    assert lines[3:5] == ["cannot work: checkpoint/tp2: one reason", "cannot work: checkpoint/tp2: another"]
    assert not [line for line in lines if line.startswith("note: ")]


def test_what_swap_would_do_is_said(maker: Callable[[str], Maker]) -> None:
    lines = plan_lines([(maker("E4B").row(name="tp2", tp=2, slim=True), [])])
    # 30.1 GB at load, of which 17.2 are there.
    assert lines[2] == "note: checkpoint/tp2: inf2.xlarge would do with 12 GiB of swap"


def test_weights_inside_of_traced_graphs_are_there_twice(maker: Callable[[str], Maker]) -> None:
    """E2B's 4.56 GB: once in each graph, on the core and on the disk."""
    traced, shared = (maker("E2B").row(name="v", kv=kv) for kv in ("host", "device"))
    assert (traced.hbm.copies, shared.hbm.copies) == (2, 1)
    assert traced.artifact - shared.artifact == traced.hbm.weights == pytest.approx(4.56e9, rel=0.01)


def test_every_column_begins_where_its_head_does(maker: Callable[[str], Maker]) -> None:
    head, line = plan_lines([(maker("E2B").row(), [])])[:2]
    for name in ("lint", "HBM GiB", "floor tok/s", "instance"):
        column = head.index(name)
        assert line[column - 1] == " " and line[column] != " "

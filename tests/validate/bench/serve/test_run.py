"""The phases on a real server with the scripted model: everything is measured, nothing is lost."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.serve.http.scripted import read_text, scripted_engine, write_text
from validate.bench.serve import beside, decode, overload
from validate.bench.serve.served import Served, served

COMMAND = (sys.executable, "-m", "tests.serve.http.process")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("bench-serve")
    write_text(made)
    return made


@pytest.fixture(scope="module")
def server(folder: Path) -> Iterator[Served]:
    with served([*COMMAND, str(folder), "--port", "0", "--queue", "6"], environment={"SLOTS": "2"}) as one:
        yield one


def test_both_sides_give_the_same_tokens(folder: Path, server: Served) -> None:
    engine, _ = scripted_engine(folder, lambda prompt: prompt * 50, 2)
    ids = read_text(folder).encode("The weather in Paris is fine today", add_special=False)
    found = decode.compare(engine, server.url, lambda: ids, streams=4, new=40, rounds=2)
    # 39 steps a stream and round on either side, but for chunks that hold more than one token.
    assert found["engine"]["steps"] == 2 * 4 * 39
    assert 0 < found["http"]["steps"] <= 2 * 4 * 39
    assert len(found["ratios"]) == 2
    assert found["ratio"] > 0


def test_overload_is_refused_and_the_rest_answered(server: Served) -> None:
    found = overload.overload(server, lambda: [300, 301, 302], slots=2, queue=6, new=100, seconds=1)
    assert found["broken_count"] == found["refused_otherwise"] == 0
    assert found["admitted"] == found["completed"] == found["finished_by_metrics"] > 0
    assert found["admitted"] + found["refused"] == found["offered"] > 0
    assert found["looks"] > 0
    assert found["queue_most"] <= 6


def test_chats_without_a_server_to_compare_with(server: Served) -> None:
    found = beside.beside(server.url, beside.model_name(server.url), None, new=40, rounds=1)
    assert found["transformers_serve"] == {"reason": "no checkpoint was given (--fetch)"}
    assert found["ours"]["tok_s"] > 0

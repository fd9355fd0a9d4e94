"""The service without HTTP: its gate, a load that fails, an engine that fails, and the end of its thread."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from serve.engine import Engine
from serve.errors import ServeError
from serve.service.job import Ask
from serve.service.limits import Gate, Limits
from serve.service.memory import available_bytes, check_memory, needed_bytes
from serve.service.refusals import Refusal
from serve.service.service import Service
from serve.service.start import SELFCHECK, SelfCheck, read_selfcheck, self_check, warm_up
from tests.serve import fakes
from tests.serve.fakes import Context

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


class Quiet:
    """An observer that counts."""

    def __init__(self) -> None:
        self.reasons: list[str] = []
        self.generated = 0

    def started(self, waited: float) -> None:
        pass

    def tokens(self, count: int, since: float, *, first: bool) -> None:
        self.generated += count

    def ended(self, seconds: float, prompt: int, generated: int, reason: str) -> None:
        self.reasons.append(reason)


def engine(folder: Path, batch: int = 2) -> tuple[Engine, Context]:
    made_for = fakes.manifest(40, 4, 5, 8, batch=batch)
    context = Context(made_for)
    return fakes.engine(folder, made_for, context), context


async def ready(folder: Path, observer: Quiet, limits: Limits = Limits()) -> tuple[Service, Context]:  # noqa: B008
    service = Service(limits, observer)
    made, context = engine(folder)
    service.start(lambda: made)
    await service.loaded
    return service, context


async def tokens(service: Service, ids: list[int], max_new: int) -> list[int]:
    job = service.admit(1, len(ids))
    job.submit([Ask(ids, max_new, stop_ids=frozenset())])
    found: list[int] = []
    try:
        while len(found) < max_new:
            for event in await job.events():
                found += [token.id for token in event.tokens]
    finally:
        job.close()
    return found


async def test_many_at_once_are_answered_as_the_engine_alone_would(tmp_path: Path) -> None:
    observer = Quiet()
    service, context = await ready(tmp_path, observer)
    asked = [([number, 3, number % 7], 3 + number % 9) for number in range(30)]
    found = await asyncio.gather(*(tokens(service, ids, max_new) for ids, max_new in asked))
    assert service.stop()
    alone, _ = engine(tmp_path)
    for (ids, max_new), answer in zip(asked, found, strict=True):
        assert answer == [token.id for token in alone.generate(ids, max_new=max_new, stop_ids=frozenset())]
    assert observer.reasons == ["length"] * 30
    assert observer.generated == sum(max_new for _, max_new in asked)
    assert (service.seated, service.admitted) == (0, 0)
    assert context.closed


async def test_the_engine_has_one_thread_and_the_loop_another(tmp_path: Path) -> None:
    service, context = await ready(tmp_path, Quiet())
    seen: set[str] = set()
    step = context.step

    def watched(graph: Any) -> Any:
        seen.add(threading.current_thread().name)
        return step(graph)

    context.step = watched  # type: ignore[method-assign]
    await tokens(service, [3], 5)
    service.stop()
    assert seen == {"engine"}


async def test_a_load_that_fails_is_told_and_nothing_is_served() -> None:
    def load() -> Engine:
        raise ServeError("no such artifact")

    service = Service(Limits(), Quiet())
    with pytest.raises(Refusal, match="loading"):
        service.admit(1, 1)
    service.start(load)
    with pytest.raises(ServeError, match="no such artifact"):
        await service.loaded
    with pytest.raises(Refusal, match="failed"):
        service.admit(1, 1)
    assert service.stop()


async def test_a_drain_during_the_load_ends_at_once(tmp_path: Path) -> None:
    go = threading.Event()
    made, _ = engine(tmp_path)

    def load() -> Engine:
        assert go.wait(10)
        return made

    service = Service(Limits(), Quiet())
    service.start(load)
    service.drain()
    assert service.drained.is_set()
    with pytest.raises(Refusal, match="shutting down"):
        service.admit(1, 1)
    go.set()
    await service.loaded
    assert service.state == "draining"
    assert service.stop()


async def test_what_is_admitted_has_a_slot_or_waits_before_one(tmp_path: Path) -> None:
    service, _ = await ready(tmp_path, Quiet(), Limits(queue=3))
    jobs, seen = [], []
    for _ in range(5):
        jobs.append(service.admit(1, 1))
        seen.append((service.admitted, service.running, service.waiting))
    assert seen == [(1, 1, 0), (2, 2, 0), (3, 2, 1), (4, 2, 2), (5, 2, 3)]
    for job in jobs:
        job.close()
    assert (service.admitted, service.running, service.waiting) == (0, 0, 0)
    service.stop()


async def test_a_job_that_is_closed_unsubmitted_gives_its_place_back(tmp_path: Path) -> None:
    service, _ = await ready(tmp_path, Quiet(), Limits(queue=0))
    job = service.admit(2, 10)
    with pytest.raises(Refusal, match="2 of 2 places are taken"):
        service.admit(1, 1)
    job.close()
    job.close()
    assert service.admitted == 0
    assert await tokens(service, [3], 2)
    service.stop()


@given(st.lists(st.tuples(st.booleans(), st.integers(1, 4), st.integers(0, 50)), max_size=60))
def test_the_gate_never_lets_more_in_than_it_should(calls: list[tuple[bool, int, int]]) -> None:
    gate = Gate(Limits(queue=5, prompt_tokens=60), slots=2, kv_max=100)
    inside: list[tuple[int, int]] = []
    for enters, answers, weight in calls:
        if not enters:
            if inside:
                gate.leave(*inside.pop(0))
            continue
        before = sum(a for a, _ in inside), sum(w for _, w in inside)
        fits = before[0] + answers <= 7 and (not inside or before[1] + weight <= 60)
        try:
            gate.enter(answers, weight, 1.0)
        except Refusal as refusal:
            assert not fits
            assert (refusal.kind, refusal.retry_after) == ("overloaded", 1.0)
        else:
            assert fits
            inside.append((answers, weight))
        assert (gate.answers, gate.tokens) == (sum(a for a, _ in inside), sum(w for _, w in inside))


def test_more_than_can_ever_fit_is_no_overload() -> None:
    with pytest.raises(Refusal) as caught:
        Gate(Limits(queue=5), slots=2, kv_max=100).enter(8, 1, 1.0)
    assert (caught.value.kind, caught.value.retry_after) == ("too_large", None)


def test_a_recorded_answer_is_checked(tmp_path: Path) -> None:
    made, _ = engine(tmp_path)
    right = [token.id for token in made.generate([4, 5], max_new=4, stop_ids=frozenset())]
    self_check(made, SelfCheck(prompt=[4, 5], tokens=right))
    wrong = [*right[:2], (right[2] + 1) % 50, right[3]]
    with pytest.raises(ServeError, match=f"token 2 of the recorded answer is {right[2]}; {wrong[2]} is accepted"):
        self_check(made, SelfCheck(prompt=[4, 5], tokens=wrong))


def test_the_warm_up_runs_both_graphs(tmp_path: Path) -> None:
    made, context = engine(tmp_path)
    warm_up(made)
    assert context.calls == ["prefill", "prefill", "decode"]
    assert made.room == 2 or not made.step()


@pytest.mark.parametrize(
    "text", ["", "[]", '{"prompt": [1]}', '{"prompt": [], "tokens": [1]}', '{"prompt": ["x"], "tokens": [1]}']
)
def test_a_damaged_record_is_named(tmp_path: Path, text: str) -> None:
    assert read_selfcheck(tmp_path) is None
    (tmp_path / SELFCHECK).write_text(text)
    with pytest.raises(ServeError, match=r"selfcheck.json: cannot be used .*prompt and tokens is accepted"):
        read_selfcheck(tmp_path)


def test_memory_is_asked_for_before_anything_is_read() -> None:
    manifest = fakes.manifest(40, 4, 5, 8)
    heavy = manifest.model_copy(update={"tables": manifest.tables.model_copy(update={"bytes": 5_000_000_000})})
    assert needed_bytes(heavy) - needed_bytes(manifest) == 5_000_000_000
    check_memory(heavy, 6_000_000_000)
    with pytest.raises(ServeError, match=r"needs about 5.30 GB of memory; this host has 4.00 GB free"):
        check_memory(heavy, 4_000_000_000)


def _host(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


MEMINFO = "MemTotal: 9000 kB\nMemFree: 10 kB\nMemAvailable:    8000 kB\n"


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({}, 8_192_000),
        ({"sys/fs/cgroup/memory.max": "max\n", "sys/fs/cgroup/memory.current": "5\n"}, 8_192_000),
        (
            {
                "sys/fs/cgroup/memory.max": "1000000\n",
                "sys/fs/cgroup/memory.current": "600000\n",
                "sys/fs/cgroup/memory.stat": "anon 1\ninactive_file 100000\nactive_file 50000\n",
            },
            550_000,
        ),
    ],
)
def test_what_is_free_is_the_least_of_host_and_container(tmp_path: Path, files: dict[str, str], expected: int) -> None:
    assert available_bytes(_host(tmp_path, {"proc/meminfo": MEMINFO} | files)) == expected


def test_this_host_has_memory() -> None:
    assert available_bytes() > 10_000_000

"""The record on S3: two callers, lost answers, damage; and what it says of money."""

from __future__ import annotations

from typing import Any

import pytest
from botocore.exceptions import ConnectionClosedError

from ledger.errors import BadInput
from tests.validate.inf2.world import LOST, START, World, world
from validate.inf2.money import GRACE, Terms
from validate.inf2.record import Book, Record

TERMS = Terms("spot", price=0.5, usd=0.6, minutes=50)
RUN = "a" * 64
_ENDLESS = (
    b'{"number": 1, "attempts": [{"number": 1, "by": "x", "region": "us-east-1", "zone": "us-east-1a", '
    b'"market": "spot", "usd": 1e999, "minutes": 180, "asked": 0}]}'
)


def book(here: World) -> Book:
    return here.run(RUN).book


def begin(record: Record) -> Record:
    return record.begin("us-east-1", "us-east-1a", TERMS, START)


def test_an_attempt_counts_in_full_until_it_is_known_to_be_over() -> None:
    record = begin(Record())
    assert record.cost == pytest.approx(0.6 * (50 + GRACE) / 60)
    assert record.ended(1, START + 600).cost == pytest.approx(0.6 / 6)
    # Who looks late does not make it dearer than its timer lets it be.
    assert record.ended(1, START + 1e6).cost == pytest.approx(record.cost)
    assert record.ended(1, START + 600).ended(1, START + 900).cost == pytest.approx(0.6 / 6)
    # Nor is money won by whoever's clock is behind.
    assert record.ended(1, START - 7200).cost == record.cost


def test_numbers_are_never_used_twice() -> None:
    record = begin(begin(Record()).without(1))
    assert [one.number for one in record.attempts] == [2]


def test_the_second_of_two_callers_sees_what_the_first_has_written() -> None:
    with world() as here:
        first, second = book(here), book(here)
        first.read()
        second.read()
        first.change(begin)
        seen: list[int] = []

        def step(record: Record) -> Record:
            seen.append(len(record.open()))
            return record if record.open() else begin(record)

        second.change(step)
        assert seen == [0, 1], "asked again once the first one's was there"
        assert len(second.record.attempts) == 1


def test_a_write_that_botocore_sent_twice_is_not_made_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first answer is lost, and the second says that somebody was first: it was the caller itself."""
    with world() as here:
        run = here.run(RUN)
        run.book.read()
        writes = run.folder.write_over

        def twice(name: str, data: bytes, tag: str | None) -> str | None:
            writes(name, data, tag)
            return writes(name, data, tag)

        monkeypatch.setattr(run.folder, "write_over", twice)
        assert run.book.change(begin).number == 1
        assert book(here).read().number == 1


def test_a_caller_that_lost_an_answer_finds_what_it_wrote() -> None:
    with world() as here:
        mine = book(here)
        mine.read()
        here.faults["PutObject"] = lambda _: LOST
        with pytest.raises(ConnectionClosedError):
            mine.change(begin)
        assert len(mine.read().open()) == 1


@pytest.mark.parametrize("damage", [b"{", b'{"attempts": 7}', b"\xff", _ENDLESS])
def test_a_damaged_record_stops_the_run_as_money_is_then_not_known(damage: bytes) -> None:
    with world() as here:
        here.s3.put_object(Bucket="foundry-test", Key=f"runs/{RUN}/record.json", Body=damage)
        with pytest.raises(BadInput, match=r"record\.json"):
            book(here).read()


def test_nothing_is_written_where_nothing_changes() -> None:
    with world() as here:
        puts: list[Any] = []
        here.faults["PutObject"] = puts.append
        mine = book(here)
        mine.read()
        mine.change(lambda record: record)
        assert puts == []

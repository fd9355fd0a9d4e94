"""How a machine or its caller ends: taken back, cut off, interrupted, too slow, too dear.

Each test ends in the same question, put to moto by `world()`: is anything left running? The bill is the world's own.
"""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable

import pytest
from botocore.exceptions import ClientError
from botocore.parsers import ResponseParserError

from tests.validate.inf2.orders import answer, dies_after, order, works
from tests.validate.inf2.world import Rented, world
from validate.inf2.asking import CeilingReached
from validate.inf2.failed import RentFailed
from validate.inf2.machines import Machine
from validate.inf2.run import Run


def interrupt() -> None:
    raise KeyboardInterrupt


def hang_up() -> None:
    os.kill(os.getpid(), signal.SIGTERM)


def test_a_machine_that_aws_takes_back_is_followed_by_one_that_goes_on() -> None:
    asked = order()
    with world() as here:
        plain = works(here, asked)
        takes = [(120 + 60 * 45, here.take)]
        here.program = lambda one: (
            plain(one) if one.attempt > 1 else sorted([*plain(one), *takes], key=lambda step: step[0])
        )
        here.rent(asked)
        first, second = here.rented
        assert first.end == first.start + 120 + 60 * 45
        # Parity had come before the reclaim, so the second did bench alone.
        assert second.end is not None
        assert second.end - second.start < 60 * 45
        assert any("has taken" in line for line in here.said)
        assert here.spent() <= 10


def test_a_machine_that_is_taken_back_may_say_how_its_script_ended() -> None:
    """The shutdown ends its container too, and what is left of the script cannot always tell why."""
    asked = order()
    with world() as here:
        plain = works(here, asked)
        told = json.dumps({"code": 143}).encode()

        def taken(one: Rented) -> None:
            here.take(one)
            here.leave(one, f"status/{one.attempt}.json", told)

        here.program = lambda one: plain(one) if one.attempt > 1 else [(600, taken)]
        assert set(here.rent(asked)) == {"parity", "bench"}
        assert len(here.rented) == 2


def test_an_interrupt_before_ec2_knows_its_machine_ends_it_all_the_same() -> None:
    with world() as here:
        here.unseen = 20.0
        run = here.run()

        def interrupted(line: str) -> None:
            here.said.append(line)
            if "USD/h" in line:
                raise KeyboardInterrupt

        run.tell = interrupted
        with pytest.raises(KeyboardInterrupt):
            here.rent(order(), run)
        (machine,) = here.rented
        assert machine.end is not None and machine.end - machine.start < 60
        (attempt,) = run.book.read().attempts
        assert attempt.cost >= here.spent()


def test_a_caller_that_follows_at_once_rents_no_second_machine_beside_one_that_is_not_seen_yet() -> None:
    asked = order()
    with world() as here:
        here.unseen = 20.0
        here.program = works(here, asked)
        dies_after(here, -1, asked)
        here.rent(asked)
        assert len(here.rented) == 1


@pytest.mark.parametrize("error", ["RequestLimitExceeded", "cut"])
def test_machines_are_terminated_although_none_can_be_listed(error: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """An answer that is cut is an exception of its own kind."""
    with world() as here:
        run = here.run()

        def lost(_: str) -> list[Machine]:
            if error == "cut":
                raise ResponseParserError("Unable to parse response (no element found)")
            raise ClientError({"Error": {"Code": error}}, "DescribeInstances")

        def interrupted(_: float) -> None:
            if here.rented and not here.rented[0].end:
                monkeypatch.setattr(run.machines, "alive", lost)
                raise KeyboardInterrupt

        here.on_sleep = interrupted
        with pytest.raises(KeyboardInterrupt):
            here.rent(order(), run)
        assert here.rented[0].end is not None


def test_the_ceiling_counts_all_machines_of_a_run() -> None:
    asked = order()
    with world(ceiling_usd=1.0) as here:
        # Each is taken back after half an hour and has done nothing.
        here.program = lambda _: [(1800, here.take)]
        with pytest.raises(CeilingReached, match=r"0\.\d\d of 1\.00 USD are spent or bound, and the rest buys no"):
            here.rent(asked)
        assert len(here.rented) >= 2
        assert 0.5 < here.spent() <= 1.0
        # Nor does another caller start from zero.
        with pytest.raises(CeilingReached):
            here.rent(asked)
        assert 0.5 < here.spent() <= 1.0


@pytest.mark.parametrize("operation", ["DescribeInstances", "ListObjectsV2", "GetObject"])
def test_a_connection_that_is_lost_for_ten_minutes_is_waited_for(operation: str) -> None:
    asked = order()
    with world() as here:
        here.program = works(here, asked)
        here.faults[operation] = lambda _: (
            "ConnectionClosed" if here.rented and here.now < here.rented[0].start + 600 else None
        )
        found = here.rent(asked)
        assert len(found) == 2
        assert len(here.rented) == 1


def test_a_connection_that_stays_lost_leaves_the_end_to_the_machine_itself() -> None:
    asked = order()
    with world(max_hours=1.0) as here:
        here.program = lambda _: []
        for operation in ("DescribeInstances", "ListObjectsV2", "GetObject", "TerminateInstances", "PutObject"):
            here.faults[operation] = lambda _: (
                "ConnectionClosed" if here.rented and here.now > here.rented[0].start + 300 else None
            )
        with pytest.raises(RentFailed, match="AWS has not answered for 15 minutes"):
            here.rent(asked)
        (machine,) = here.alive()
        assert any(f"{machine.id} in {machine.region} may still run" in line for line in here.said)
        # Nobody is there any more, and the timer is the machine's.
        here.sleep(3600 + 600)
        assert here.spent() <= 10


@pytest.mark.parametrize(("blow", "raised"), [(interrupt, KeyboardInterrupt), (hang_up, SystemExit)])
def test_whoever_is_interrupted_terminates_first(blow: Callable[[], None], raised: type[BaseException]) -> None:
    with world() as here:
        here.on_sleep = lambda _: blow() if here.rented and here.now > here.rented[0].start + 300 else None
        with pytest.raises(raised):
            here.rent(order())
        assert len(here.rented) == 1


def test_a_second_interrupt_does_not_stop_the_termination() -> None:
    with world() as here:
        here.on_sleep = lambda _: os.kill(os.getpid(), signal.SIGINT) if here.rented else None
        failing = iter(["InternalError"] * 3)
        here.faults["TerminateInstances"] = lambda _: next(failing, None)
        with pytest.raises(KeyboardInterrupt):
            here.rent(order())


def test_a_reader_that_has_gone_keeps_no_machine_alive() -> None:
    with world() as here:
        run = here.run(order().run)

        def gone(_: str) -> None:
            raise BrokenPipeError

        run.tell = gone
        here.program = works(here, order())
        assert len(here.rent(order(), run)) == 2


def test_a_machine_that_fails_says_why() -> None:
    with world() as here:
        log = b"machine: pulling\nerror: this machine cannot be inf2-serve: driver\nmake: *** [hardware] Error 1\n"
        here.program = lambda _: [
            (300, lambda one: here.leave(one, f"logs/{one.attempt}.txt", log)),
            (301, lambda one: here.leave(one, f"status/{one.attempt}.json", json.dumps({"code": 2}).encode())),
            (302, lambda one: here.take(one, "Client.InstanceInitiatedShutdown")),
        ]
        with pytest.raises(
            RentFailed, match="without receipts: this machine cannot be inf2-serve: driver; its log is s3://"
        ):
            here.rent(order())
        assert len(here.rented) == 1, "and no second one fails in the same way"


def test_a_machine_that_is_too_slow_ends_itself_and_what_it_did_is_kept() -> None:
    asked = order()
    with world(max_hours=0.5) as here:
        here.program = works(here, asked, minutes=20)
        with pytest.raises(RentFailed, match="has shut itself down after 30 minutes"):
            here.rent(asked)
        assert here.rent(asked)["bench"] == answer(asked, "bench")


def test_a_machine_that_another_caller_took_along_is_followed_by_one() -> None:
    """Ctrl-C of one of two callers ends their machine, and the one that is left asks for its own."""
    asked = order()
    with world() as here:
        here.program = works(here, asked)
        other: list[Run] = []

        def comes_and_goes(_: float) -> None:
            if here.rented and not other:
                other.append(here.run(asked.run))
                assert other[0].adopt()
                other[0].release()

        here.on_sleep = comes_and_goes
        assert set(here.rent(asked)) == {"parity", "bench"}
        assert [one.attempt for one in here.rented] == [1, 2]
        assert any(f"perhaps another caller of this run, has taken {here.rented[0].id}" in line for line in here.said)


def test_a_hang_up_that_is_ignored_stays_so() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with world() as here:
            here.program = works(here, order())
            here.on_sleep = lambda _: os.kill(os.getpid(), signal.SIGHUP)
            assert len(here.rent(order())) == 2
    finally:
        signal.signal(signal.SIGHUP, before)


@pytest.mark.parametrize("status", [b"[]", b"{", b'{"code": "\xff"}'])
def test_a_status_that_cannot_be_read_is_an_end(status: bytes) -> None:
    with world() as here:
        log = b"error: \x1b[8mbad\x07 thing\n"
        here.program = lambda _: [
            (300, lambda one: here.leave(one, f"logs/{one.attempt}.txt", log)),
            (301, lambda one: here.leave(one, f"status/{one.attempt}.json", status)),
        ]
        with pytest.raises(RentFailed, match=r"without receipts: \ufffd\[8mbad\ufffd thing"):
            here.rent(order())
        assert not any("\x1b" in line for line in here.said)

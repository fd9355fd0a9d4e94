"""One run: its folder and record on S3, the machines that belong to it, and the end of them."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from types import FrameType
from typing import NoReturn

from config.cloud import Inf2
from validate.inf2.clients import Clients
from validate.inf2.clock import Clock
from validate.inf2.folder import Folder
from validate.inf2.machines import Machine, Machines
from validate.inf2.record import Attempt, Book
from validate.inf2.refusals import name_of

DOUBT = 90.0
"""Seconds after which a machine that was asked for, and is in no list, is taken for one that never was."""
RELEASES = 8
"""How often a machine is terminated before its own timer is left to do it."""
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@dataclass
class Run:
    """What every part of a run works with; `touched` are regions where a machine of it may be."""

    id: str
    name: str
    folder: Folder
    machines: Machines
    clients: Clients
    regions: tuple[str, ...]
    clock: Clock
    tell: Callable[[str], None]
    book: Book = field(init=False)
    touched: set[str] = field(init=False)

    def __post_init__(self) -> None:
        self.book = Book(self.folder)
        self.touched = set()

    def say(self, line: str) -> None:
        """A line of progress. Whoever reads it may be gone, and that must not keep a machine alive."""
        with contextlib.suppress(OSError, ValueError):
            self.tell(f"{self.name}: {line}")

    def adopt(self) -> tuple[Machine, Attempt] | None:
        """The machine that works for this run, if there is one; the record is set right, and any other is terminated.

        Errors of AWS come through, and then nothing is known.
        """
        record, now = self.book.read(), self.clock.now()
        # An earlier caller may have been allowed other regions.
        asked = {attempt.region for attempt in record.open()}
        alive = [one for region in sorted({*self.regions, *asked}) for one in self.machines.alive(region)]
        self.touched |= {one.region for one in alive} | asked
        found: tuple[Machine, Attempt] | None = None
        for attempt in record.open():
            machine = next((one for one in alive if one.attempt == attempt.number), None)
            if machine and machine.works and not found and not attempt.is_over(now, machine.age):
                found = machine, attempt
                self._started(attempt, machine)
                alive.remove(machine)
            elif machine or (attempt.instance and not self._is_unseen(attempt)):
                self.ended(attempt)
            elif attempt.instance:
                # Started so lately that no list has it: adopted or ended by the next look.
                continue
            elif now - attempt.asked >= DOUBT:
                self.never_was(attempt)
        for machine in alive:
            self.say(f"{machine.id} in {machine.region} is one too many, and is terminated")
            self.machines.terminate(machine.region, [machine.id])
        if found:
            self.say(f"goes on with {found[0].id} in {found[0].region}")
        return found

    def _is_unseen(self, attempt: Attempt) -> bool:
        """Whether EC2 does not know a machine yet that it has said it started: for seconds, and then it runs."""
        young = self.clock.now() - attempt.asked < DOUBT
        return young and self.machines.look(attempt.region, str(attempt.instance)) is None

    def ended(self, attempt: Attempt) -> None:
        """Write down that the machine of an attempt is over."""
        now = self.clock.now()
        self.book.change(lambda record: record.ended(attempt.number, now))

    def _started(self, attempt: Attempt, machine: Machine) -> None:
        self.book.change(lambda record: record.started(attempt.number, machine.id))

    def never_was(self, attempt: Attempt) -> None:
        """Take an attempt out of the record that never became a machine."""
        self.book.change(lambda record: record.without(attempt.number))

    def release(self) -> list[Machine]:
        """Terminate every machine of this run, and look until none is left; those that are left, if AWS is away.

        No signal ends this: it is short, and what it leaves is paid for.
        """
        with _deaf():
            left: list[Machine] = []
            for trial in range(RELEASES):
                waiting, left = sorted(self.touched), []
                for region in waiting:
                    left += self._released(region)
                if not left and not self.touched:
                    return []
                self.clock.sleep(min(2.0**trial, 30.0))
            return left

    def _released(self, region: str) -> list[Machine]:
        """The machines in a region that may still be alive; the region is done when there are none."""
        mine = [one for one in self.book.record.open() if one.region == region]
        known = [one for one in mine if one.instance]
        try:
            # Before any list, which may not be had.
            self.machines.terminate(region, [str(one.instance) for one in known])
            if others := [one.id for one in self.machines.alive(region)]:
                self.machines.terminate(region, others)
            if alive := self.machines.alive(region):
                return alive
            unseen = [one for one in known if self._is_unseen(one)]
            for attempt in known:
                if attempt not in unseen:
                    self.ended(attempt)
            doubtful = [one for one in mine if not one.instance and self.clock.now() - one.asked < DOUBT]
            if doubtful or unseen:
                # Asked for, and perhaps in no list yet.
                return [Machine(region, str(one.instance), "unknown", "", {}) for one in unseen]
            for attempt in mine:
                if not attempt.instance:
                    self.never_was(attempt)
        # Whatever it is: the other regions, and the next trial, must come.
        except Exception as error:
            self.say(f"{region} does not do what it is asked for ({name_of(error)})")
            return [Machine(region, str(one.instance), "unknown", "", {}) for one in known]
        self.touched.discard(region)
        return []


@contextlib.contextmanager
def signals_raise() -> Iterator[None]:
    """Within it SIGTERM and SIGHUP are exceptions as SIGINT is, so that whatever is rented is given back.

    One that is ignored stays so, as nohup wants it.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    heard = [one for one in _SIGNALS[1:] if signal.getsignal(one) is not signal.SIG_IGN]
    before = {one: signal.signal(one, _leave) for one in heard}
    try:
        yield
    finally:
        for one, handler in before.items():
            signal.signal(one, handler)


def _leave(number: int, frame: FrameType | None) -> NoReturn:
    raise SystemExit(128 + number)


@contextlib.contextmanager
def _deaf() -> Iterator[None]:
    """Within it no signal but SIGKILL is heard: Ctrl-C comes twice where a workflow engine passes it on."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {one: signal.signal(one, signal.SIG_IGN) for one in _SIGNALS}
    try:
        yield
    finally:
        for one, handler in before.items():
            signal.signal(one, handler)


def run_of(run: str, name: str, cloud: Inf2, clients: Clients, clock: Clock, tell: Callable[[str], None]) -> Run:
    """The run of that id, of a variant `name`."""
    folder = Folder(clients.s3(), cloud.runs).below(run)
    machines = Machines(clients, cloud.runs, run)
    return Run(run, name, folder, machines, clients, tuple(cloud.regions), clock, tell)

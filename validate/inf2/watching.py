"""Waiting for what a machine leaves on S3: its log is told on, and its end is noticed however it comes."""

from __future__ import annotations

import contextlib
from enum import Enum, auto

from ledger.digest import parse_json
from ledger.errors import BadInput
from validate.inf2.failed import RentFailed
from validate.inf2.machines import Machine
from validate.inf2.order import STAGES, failed_name, log_name, receipt_name, status_name
from validate.inf2.patience import PATIENCE
from validate.inf2.record import Attempt
from validate.inf2.refusals import AWS_ERRORS, hopeless, sentence
from validate.inf2.run import Run
from validate.inf2.telling import printable


class Ending(Enum):
    """How the wait for one machine ended."""

    DONE = auto()
    TAKEN = auto()


class Watch:
    """The wait for one machine."""

    def __init__(self, run: Run, machine: Machine, attempt: Attempt, poll: float) -> None:
        self._run, self._machine, self._attempt, self._poll = run, machine, attempt, poll
        self._told = 0
        self._rest = b""
        self._error = ""
        self._began = self._seen = run.clock.now()

    def wait(self) -> Ending:
        """DONE when every receipt is there, or a failed one; TAKEN when the machine was taken away before that.

        RentFailed when the machine has ended in another way, or AWS does not answer for long; BadInput when it no
        longer lets us in or takes what is asked for.
        """
        while True:
            try:
                if ending := self._look():
                    return ending
                self._seen = self._run.clock.now()
            except AWS_ERRORS as error:
                if hopeless(error):
                    raise sentence(error, "a look at the run") from None
                if self._run.clock.now() - self._seen > PATIENCE:
                    raise RentFailed(
                        f"{self._run.name}: AWS has not answered for {PATIENCE / 60:.0f} minutes; the same command "
                        "goes on with what the machine leaves"
                    ) from None
            self._run.clock.sleep(self._poll)

    def _look(self) -> Ending | None:
        # First, so that what the machine has written before it ended is seen by the look at S3.
        machine = self._run.machines.look(self._machine.region, self._machine.id)
        names = self._run.folder.names()
        self._tell(names)
        if settled(names):
            return Ending.DONE
        status = status_name(self._attempt.number)
        if status in names:
            # What ends with the machine may have been heard of before its end.
            machine = self._run.machines.look(self._machine.region, self._machine.id)
            if machine and machine.taken:
                return self._ended(machine)
            self._fail(status)
        now = self._run.clock.now()
        if machine is None:
            # A new machine is in no list for a moment.
            return Ending.TAKEN if now - self._began > PATIENCE else None
        if not machine.works:
            return self._ended(machine)
        if self._attempt.is_over(now, machine.age):
            raise RentFailed(self._late("has not shut itself down"))
        return None

    def _ended(self, machine: Machine) -> Ending:
        if machine.taken:
            who = "AWS" if machine.reason.startswith("Server.") else "somebody, perhaps another caller of this run,"
            self._run.say(f"{who} has taken {machine.id} away ({machine.reason}); another one is asked for")
            return Ending.TAKEN
        if self._run.clock.now() >= self._attempt.asked + 60 * self._attempt.minutes:
            raise RentFailed(self._late("has shut itself down"))
        raise RentFailed(
            f"{self._run.name}: {machine.id} ended without a receipt ({machine.reason or machine.state}); its log is "
            f"{self._log()}"
        )

    def _late(self, what: str) -> str:
        return (
            f"{self._run.name}: {self._machine.id} {what} after {self._attempt.minutes} minutes; accepted: more of "
            f"inf2.max_hours or inf2.ceiling_usd, as what is done stays on S3; its log is {self._log()}"
        )

    def _code(self, status: str) -> int:
        with contextlib.suppress(BadInput):
            match parse_json(self._run.folder.read(status) or b"", status):
                case {"code": int(code)}:
                    return code
        return -1

    def _fail(self, status: str) -> None:
        # Of a gate, of bad input and of a crash the code is make's own.
        said = self._error or f"exit code {self._code(status)}"
        raise RentFailed(f"{self._run.name}: the machine ended without receipts: {said}; its log is {self._log()}")

    def _log(self) -> str:
        return f"{self._run.folder.address}/{log_name(self._attempt.number)}"

    def _tell(self, names: dict[str, int]) -> None:
        """Say what the log has had added; its last sentence about an error is kept."""
        name = log_name(self._attempt.number)
        if names.get(name, 0) <= self._told:
            return
        more = self._run.folder.read(name, self._told) or b""
        self._told += len(more)
        *lines, self._rest = (self._rest + more).split(b"\n")
        for line in lines:
            text = printable(line.decode(errors="replace").rstrip())
            self._run.say(f"| {text}")
            if text.startswith("error: "):
                self._error = text.removeprefix("error: ")


def settled(names: dict[str, int]) -> bool:
    """Whether the receipts on S3 decide the run: all of them, or one that says failed."""
    return all(receipt_name(stage) in names for stage in STAGES) or any(failed_name(stage) in names for stage in STAGES)

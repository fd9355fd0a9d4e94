"""The record of a run on S3: each machine that was asked for, and what it has cost or can still cost.

It is written before a machine is asked for, so that a caller that dies at any moment leaves no machine that is not in
it. Two callers write by turns (If-Match): the one that was second reads again and sees what the first has done.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable

from pydantic import BaseModel, ConfigDict

from config.cloud import RegionName
from ledger.digest import canonical_json
from ledger.receipts import parse_model
from validate.inf2.failed import RentFailed
from validate.inf2.folder import Folder
from validate.inf2.money import GRACE, Market, Terms

NAME = "record.json"
_TRIES = 20


class Attempt(BaseModel):
    """One machine: `usd` per hour at most, `minutes` of its timer, seconds since 1970 of its request and its end.

    `by` is a word of the caller's own, so that what it wrote is not taken for what another wrote at the same time.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    number: int
    by: str
    region: RegionName
    zone: str
    market: Market
    usd: float
    minutes: int
    asked: float
    instance: str | None = None
    ended: float | None = None

    @property
    def over(self) -> float:
        """When it is over at the latest, by its own timer."""
        return self.asked + 60 * (self.minutes + GRACE)

    def is_over(self, now: float, age: float | None) -> bool:
        """Whether its machine should have ended; `age` is by AWS's own clock, `now` by a caller's, who may be wrong."""
        return now > self.over if age is None else age > self.over - self.asked

    @property
    def cost(self) -> float:
        """US dollars that it has cost, or can still cost, at most."""
        # An end before the request is by another clock, and tells nothing.
        ended = self.over if self.ended is None or self.ended < self.asked else min(self.ended, self.over)
        return self.usd * (ended - self.asked) / 3600


class Record(BaseModel):
    """The machines of a run since it last came to an end; `number` counts all that were ever asked for."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    number: int = 0
    attempts: tuple[Attempt, ...] = ()

    @property
    def cost(self) -> float:
        """US dollars of all attempts."""
        return sum(attempt.cost for attempt in self.attempts)

    def find(self, number: int) -> Attempt | None:
        """The attempt of that number."""
        return next((attempt for attempt in self.attempts if attempt.number == number), None)

    def open(self) -> list[Attempt]:
        """The attempts that are not known to be over."""
        return [attempt for attempt in self.attempts if attempt.ended is None]

    def begin(self, region: str, zone: str, terms: Terms, now: float) -> Record:
        """With one more attempt."""
        number = self.number + 1
        attempt = Attempt(
            number=number,
            by=uuid.uuid4().hex,
            region=region,
            zone=zone,
            market=terms.market,
            usd=terms.usd,
            minutes=terms.minutes,
            asked=now,
        )
        return Record(number=number, attempts=(*self.attempts, attempt))

    def started(self, number: int, instance: str) -> Record:
        """With the machine of an attempt known."""
        return self._with(number, instance=instance)

    def ended(self, number: int, now: float) -> Record:
        """With an attempt over, if it was not."""
        attempt = self.find(number)
        return self._with(number, ended=now) if attempt and attempt.ended is None else self

    def without(self, number: int) -> Record:
        """Without an attempt that never became a machine."""
        return Record(number=self.number, attempts=tuple(one for one in self.attempts if one.number != number))

    def _with(self, number: int, **changes: object) -> Record:
        changed = (one.model_copy(update=changes) if one.number == number else one for one in self.attempts)
        return Record(number=self.number, attempts=tuple(changed))


class Book:
    """The record as it is on S3."""

    def __init__(self, folder: Folder) -> None:
        self._folder = folder
        self.record = Record()
        self._tag: str | None = None

    def read(self) -> Record:
        """The record as it is now; BadInput when it is damaged, as what was spent is then not known."""
        data, self._tag = self._folder.read_tagged(NAME)
        origin = f"{self._folder.address}/{NAME}"
        self.record = Record() if data is None else parse_model(Record, data, origin)
        return self.record

    def change(self, step: Callable[[Record], Record]) -> Record:
        """Write `step` of the record; it is asked again when somebody else has written meanwhile."""
        for _ in range(_TRIES):
            wanted = step(self.record)
            if wanted == self.record:
                return wanted
            if tag := self._folder.write_over(NAME, canonical_json(wanted.model_dump(mode="json")), self._tag):
                self.record, self._tag = wanted, tag
                return wanted
            # Our own write may have arrived although its answer was lost.
            if self.read() == wanted:
                return wanted
        raise RentFailed(f"{self._folder.address}/{NAME}: somebody else writes it all the time; accepted: one caller")

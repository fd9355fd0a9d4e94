"""Asking for one machine until there is one: zone after zone, region after region, spot first, then on demand.

Before each round the record is held against the machines that are there, so that a machine whose request got no answer,
or whose caller died, is found and used, and never a second one is asked for beside it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from config.cloud import Inf2
from recipes.fit.instances import Instance
from validate.inf2.failed import RentFailed
from validate.inf2.machines import Machine
from validate.inf2.money import DISK_USD, Limits, Market, Terms
from validate.inf2.places import Map, Place
from validate.inf2.record import Attempt, Record
from validate.inf2.refusals import AWS_ERRORS, Refusal, hopeless, refusal_of
from validate.inf2.request import request
from validate.inf2.run import Run

FIRST_PAUSE, LONGEST_PAUSE = 30.0, 600.0
"""Seconds between two rounds: they double, and a quarter of them is a matter of chance."""


class CeilingReached(RentFailed):
    """What is left of the ceiling buys no machine."""


def limits_of(cloud: Inf2, kind: Instance) -> Limits:
    """What bounds a machine of that kind."""
    return Limits(
        on_demand=kind.usd * cloud.price_margin,
        disk=DISK_USD * cloud.disk_gb * cloud.price_margin,
        minutes=round(cloud.max_hours * 60),
    )


@dataclass
class _Round:
    """What one round has found out."""

    silent: tuple[str, ...] = ()
    closed: set[tuple[str, Market]] = field(default_factory=set)
    refusals: dict[str, int] = field(default_factory=dict)
    affordable: bool = False

    def note(self, refusal: Refusal, place: Place, market: Market) -> None:
        """Keep what was said; a whole region may be of no use for this round."""
        self.refusals[refusal.code] = self.refusals.get(refusal.code, 0) + 1
        if refusal.scope == "region":
            self.closed.add((place.region, market))

    def said(self) -> str:
        """The refusals, with how often each was given, and the regions that did not answer at all."""
        said = [f"{code} ({count})" for code, count in sorted(self.refusals.items())]
        return ", ".join([*said, *(f"{region} does not answer" for region in self.silent)]) or "no zone offers it"


class Asking:
    """Gets a run its machine."""

    def __init__(self, run: Run, cloud: Inf2, kind: Instance) -> None:
        self._run, self._cloud, self._kind = run, cloud, kind
        self._map = Map(run.clients, cloud, kind.name, run.clock.now)
        self._limits = limits_of(cloud, kind)
        self._never: dict[tuple[str, Market], str] = {}

    def machine(self) -> tuple[Machine, Attempt]:
        """A machine, found or new.

        Raises RentFailed when none is to be had for `wait_hours`, or none for what is left of the ceiling, or when all
        zones have said what waiting does not mend.
        """
        clock = self._run.clock
        gives_up, pause = clock.now() + 3600 * self._cloud.wait_hours, FIRST_PAUSE
        while True:
            said = self._try()
            if isinstance(said, tuple):
                return said
            wait = pause * (0.75 + clock.jitter() / 4)
            if clock.now() + wait > gives_up:
                raise RentFailed(
                    f"{self._run.name}: no {self._kind.name} in {', '.join(self._cloud.regions)} for "
                    f"{self._cloud.wait_hours:g} h, the last answers being {said}; accepted: more regions or zones, "
                    "on_demand: true, or another hour"
                )
            self._run.say(f"no {self._kind.name}: {said}; asking again in {wait:.0f} s")
            clock.sleep(wait)
            pause = min(2 * pause, LONGEST_PAUSE)

    def _try(self) -> tuple[Machine, Attempt] | str:
        try:
            return self._run.adopt() or self._round()
        except AWS_ERRORS as error:
            # BadInput if waiting is no use.
            return f"AWS does not answer ({refusal_of(error).code})"

    def _round(self) -> tuple[Machine, Attempt] | str:
        """One machine, or why there was none in the whole round."""
        if self._run.book.record.open():
            return "a machine that may have been started is not to be seen yet"
        places = self._map.places(self._run.say)
        round_ = _Round(silent=self._map.silent)
        for place, market in self._offers(places):
            if (place.zone, market) in self._never or (place.region, market) in round_.closed:
                continue
            attempt, terms = self._write(place, market)
            if attempt is None or terms is None:
                if self._run.book.record.open():
                    return "another caller asks for the same run"
                continue
            round_.affordable = True
            answer = self._ask(attempt, terms)
            if isinstance(answer, Machine):
                return answer, attempt
            round_.note(answer, place, market)
            if answer.scope == "never":
                self._never[place.zone, market] = answer.code
            if answer.scope == "unsure":
                return round_.said()
            self._run.never_was(attempt)
        if places and not round_.silent and self._all_refused(places):
            self._unwanted()
        if places and not round_.affordable and not round_.refusals and not self._all_refused(places):
            self._poor()
        return round_.said()

    def _offers(self, places: list[Place]) -> Iterator[tuple[Place, Market]]:
        yield from ((place, "spot") for place in places)
        if self._cloud.on_demand:
            yield from ((place, "on-demand") for place in places)

    def _all_refused(self, places: list[Place]) -> bool:
        return all(offer in self._never for offer in ((p.zone, market) for p, market in self._offers(places)))

    def _terms(self, record: Record, place: Place, market: Market) -> Terms | None:
        left = self._cloud.ceiling_usd - record.cost
        if market == "spot":
            return self._limits.spot_terms(left, place.spot)
        return self._limits.on_demand_terms(left)

    def _write(self, place: Place, market: Market) -> tuple[Attempt | None, Terms | None]:
        """Put the attempt into the record; nothing when another caller has one there, or it would pass the ceiling."""
        wrote: list[Terms] = []

        def step(record: Record) -> Record:
            wrote.clear()
            terms = None if record.open() else self._terms(record, place, market)
            if terms is None:
                return record
            wrote.append(terms)
            return record.begin(place.region, place.zone, terms, self._run.clock.now())

        record = self._run.book.change(step)
        return (record.attempts[-1], wrote[0]) if wrote else (None, None)

    def _ask(self, attempt: Attempt, terms: Terms) -> Machine | Refusal:
        run = self._run
        image = self._map.image(attempt.region)
        asked = request(self._cloud, run.folder, run.id, run.name, self._kind.name, attempt, terms, image)
        run.touched.add(attempt.region)
        try:
            answer = run.clients.ec2(attempt.region).run_instances(**asked)
        except AWS_ERRORS as error:
            if hopeless(error):
                # Written down first, as nobody need wait until it is sure.
                run.never_was(attempt)
            return refusal_of(error)
        instance = answer["Instances"][0]["InstanceId"]
        record = run.book.change(lambda record: record.started(attempt.number, instance))
        if record.find(attempt.number) is None:
            # It took so long that another caller of the run has gone on without it.
            run.machines.terminate(attempt.region, [instance])
            return Refusal("forgotten by another caller", "unsure")
        run.say(
            f"{terms.market} {self._kind.name} {instance} in {attempt.zone}: at most {terms.usd:.2f} USD/h for "
            f"{terms.minutes} min, {terms.reserve:.2f} of {self._cloud.ceiling_usd:.2f} USD"
        )
        return Machine(attempt.region, instance, "pending", "", {}, self._kind.name)

    def _unwanted(self) -> None:
        said = ", ".join(f"{zone} {market} {code}" for (zone, market), code in sorted(self._never.items()))
        raise RentFailed(
            f"{self._run.name}: every zone refuses a {self._kind.name} for good ({said}); accepted: inf2.regions with "
            "zones and subnets in which this account may start one"
        )

    def _poor(self) -> None:
        spent = self._run.book.record.cost
        raise CeilingReached(
            f"{self._run.name}: {spent:.2f} of {self._cloud.ceiling_usd:.2f} USD are spent or bound, and the rest buys "
            f"no {self._kind.name}; accepted: a higher inf2.ceiling_usd; what is done is at {self._run.folder.address}"
        )

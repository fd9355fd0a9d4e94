"""A subject whose every token is a formula of the history, and the faults a real one can have."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal

from validate.records import Answer, Heldout, HeldoutAnswer, Oracle, Prompt, PromptSet

STOP = 5
Fault = Literal["none", "remembers", "flickers", "long", "ignores-stop", "stops-always", "heldout", "shorter"]


def following(history: Sequence[int]) -> int:
    """The right token after a history."""
    return (31 * sum((n + 1) * token for n, token in enumerate(history[-6:])) + len(history)) % 97


@dataclass(frozen=True)
class Said:
    """What generate yields."""

    id: int


@dataclass(frozen=True)
class Scored:
    """What score gives."""

    argmax: int
    logprob: float | None


class FakeEngine:
    """Engine-shaped; with a fault it goes wrong in one way only."""

    def __init__(self, fault: Fault = "none", off_at: frozenset[int] = frozenset()) -> None:
        """`off_at`: lengths of history after which it says another token than the right one."""
        self.fault, self.off_at = fault, off_at
        self.requests: list[tuple[int, ...]] = []
        self.closed = False

    def generate(self, ids: Sequence[int], *, max_new: int, stop_ids: frozenset[int] | None = None) -> Iterator[Said]:
        stops = frozenset({STOP}) if stop_ids is None else stop_ids
        if self.fault == "ignores-stop":
            stops = frozenset()
        elif self.fault == "stops-always":
            stops = frozenset({STOP})
        before = self.requests[-1] if self.requests else ()
        self.requests.append(tuple(ids))
        history = list(ids)
        for made in range(max_new - (self.fault == "shorter" and max_new > 3)):
            token = self._token(history, before, made)
            yield Said(token)
            if token in stops:
                return
            history.append(token)

    def _token(self, history: list[int], before: tuple[int, ...], made: int) -> int:
        token = following(history)
        wrong = (
            (self.fault == "remembers" and made == 2 and len(before) > len(history))
            or (self.fault == "flickers" and made == 1 and before == self.requests[-1])
            or (self.fault == "long" and len(history) > 20)
            or len(history) in self.off_at
        )
        return (token + 1) % 97 if wrong else token

    def score(self, ids: Sequence[int]) -> list[Scored]:
        self.requests.append(tuple(ids))
        right = [following(ids[: n + 1]) for n in range(len(ids))]
        if self.fault == "heldout":
            right[2] += 1
        return [Scored(token, -1.5) for token in right]

    def close(self) -> None:
        self.closed = True


@dataclass
class Asked:
    """A request in one of the slots of a `FakeBatchedEngine`."""

    rest: Iterator[Said]
    made: list[Said] = field(default_factory=list)


class FakeBatchedEngine(FakeEngine):
    """Runs `slots` requests side by side; `overhears`: with company, a request takes its neighbour's third token."""

    def __init__(self, slots: int, fault: Fault = "none", *, overhears: bool = False) -> None:
        super().__init__(fault)
        self.slots, self.overhears = slots, overhears
        self._waiting: list[Asked] = []
        self.most = 0  # requests that were under way at once

    def submit(self, ids: Sequence[int], *, max_new: int, stop_ids: frozenset[int] | None = None) -> Asked:
        self._waiting.append(Asked(self.generate(ids, max_new=max_new, stop_ids=stop_ids)))
        return self._waiting[-1]

    def step(self) -> bool:
        running = self._waiting[: self.slots]
        self.most = max(self.most, len(running))
        for asked in running:
            token = next(asked.rest, None)
            if token is None:
                self._waiting.remove(asked)
            else:
                asked.made.append(token)
        if self.overhears and len(running) > 1 and all(len(asked.made) == 3 for asked in running[:2]):
            running[0].made[2] = running[1].made[2]
        return bool(running)


def ask(lengths: Sequence[int], *, max_new: int = 8, stop: bool = False) -> PromptSet:
    """One prompt for each length, and one held-out window."""
    prompts = [
        Prompt(name=f"p{n}", kind="t", ids=(2, *range(n, n + length - 1)), max_new=max_new, stop=stop)
        for n, length in enumerate(lengths)
    ]
    return PromptSet(prompts=tuple(prompts), heldout=(Heldout(name="h0", ids=(2, 9, 8, 7)),))


def tell(asked: PromptSet, gap: float = 1.0) -> Oracle:
    """The right answers, every one with the same gap."""
    answers = []
    for prompt in asked.prompts:
        history = list(prompt.ids)
        while len(history) - len(prompt.ids) < prompt.max_new:
            history.append(following(history))
            if prompt.stop and history[-1] == STOP:
                break
        tokens = tuple(history[len(prompt.ids) :])
        flat = (gap,) * len(tokens)
        answers.append(
            Answer(
                name=prompt.name,
                ids=prompt.ids,
                max_new=prompt.max_new,
                stop=prompt.stop,
                tokens=tokens,
                gaps=flat,
                tops=flat,
            )
        )
    heldout = [
        HeldoutAnswer(
            name=one.name,
            ids=one.ids,
            tokens=tuple(following(one.ids[: n + 1]) for n in range(len(one.ids))),
            gaps=(gap,) * len(one.ids),
            logprobs=(-1.25, None, -1.5),
        )
        for one in asked.heldout
    ]
    return Oracle(library="formula", answers=tuple(answers), heldout=tuple(heldout), facts={})

"""Stop strings over text that arrives in pieces.

The answer ends at the first character at which any stop is complete; if several are, the longest of them is the one.
So the pieces make no difference, and nothing that could be the beginning of a stop goes out. One automaton
per stop (Knuth, Morris and Pratt 1977) makes this O(1) amortised per character and stop.
"""

from __future__ import annotations

from collections.abc import Sequence

from serve.errors import ServeError

LIMIT = 4


class Stops:
    """Looks for stop strings and holds back what may become one."""

    def __init__(self, strings: Sequence[str], *, include: bool = False) -> None:
        """`include` lets the stop itself go out; ServeError for an empty string or more than four."""
        if len(strings) > LIMIT:
            raise ServeError(f"stop has {len(strings)} strings; up to {LIMIT} are accepted")
        if "" in strings:
            raise ServeError(
                f"stop[{list(strings).index('')}] is empty; strings of at least one character are accepted"
            )
        self._automata = [_Automaton(string) for string in strings]
        self._include = include
        self._held = ""
        self.hit: str | None = None

    def push(self, text: str) -> tuple[str, bool]:
        """The text that may go out, and whether a stop was met; after that nothing goes out any more."""
        if not self._automata or self.hit is not None:
            return ("" if self.hit is not None else text), self.hit is not None
        seen = self._held + text
        for place, character in enumerate(text, start=len(self._held) + 1):
            met = [automaton.stop for automaton in self._automata if automaton.step(character)]
            if met:
                self.hit, self._held = max(met, key=len), ""
                return seen[: place if self._include else place - len(self.hit)], True
        keep = len(seen) - max(automaton.matched for automaton in self._automata)
        self._held = seen[keep:]
        return seen[:keep], False

    def finish(self) -> str:
        """What was held back and turned out to be no stop."""
        held, self._held = self._held, ""
        return held


class _Automaton:
    """How much of one stop the text ends with: `matched` characters, the most that are fewer than all."""

    def __init__(self, stop: str) -> None:
        self.stop = stop
        self.matched = 0
        self._shorter = [0] * len(stop)  # the next shorter prefix that a prefix ends with, by its last character
        for end in range(1, len(stop)):
            length = self._shorter[end - 1]
            while length and stop[length] != stop[end]:
                length = self._shorter[length - 1]
            self._shorter[end] = length + (stop[length] == stop[end])

    def step(self, character: str) -> bool:
        """Take one character; True if the stop is complete with it."""
        while self.matched and self.stop[self.matched] != character:
            self.matched = self._shorter[self.matched - 1]
        self.matched += self.stop[self.matched] == character
        return self.matched == len(self.stop)

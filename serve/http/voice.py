"""One answer on its way from tokens to what its client sees."""

from __future__ import annotations

from dataclasses import dataclass, field

from serve.request import Score, Token
from serve.service.job import Event
from serve.service.refusals import Refusal
from serve.text.events import Content, Reasoning, ToolCallArguments, ToolCallStart
from serve.text.events import Event as TextEvent
from serve.text.reader import Reader


@dataclass(slots=True)
class Delta:
    """What one step adds: text, thoughts, calls, and the tokens whose log-probabilities belong to it."""

    content: str = ""
    reasoning: str = ""
    calls: list[ToolCallStart | ToolCallArguments] = field(default_factory=list)
    tokens: list[Token] = field(default_factory=list)
    scores: list[Score] = field(default_factory=list)

    def add(self, other: Delta) -> None:
        """Append what came later."""
        self.content += other.content
        self.reasoning += other.reasoning
        self.calls += other.calls
        self.tokens += other.tokens
        self.scores += other.scores


class Voice:
    """Reads the events of one answer; `finish` is its finish_reason once it is over.

    With `every_token` the tokens of a delta are all that were generated, the stop token too (completions); without,
    those whose text went out as content (chat): tokens of thoughts, calls, markers and stop strings are left out.
    """

    def __init__(self, reader: Reader, special: dict[int, str], *, every_token: bool, one_call: bool = False) -> None:
        self._reader, self._special = reader, special
        self._every_token, self._one_call = every_token, one_call
        self._held: list[Token] = []
        self.generated = 0
        self.finish: str | None = None
        self.timed_out = False
        self._by_text = False

    @property
    def stopped(self) -> bool:
        """Whether the text ended the answer, which the engine cannot know."""
        return self.finish is not None and self._by_text

    def take(self, event: Event) -> Delta:
        """What an event adds; nothing once the answer is over."""
        delta = Delta()
        if self.finish is not None:
            return delta
        delta.scores.extend(event.scores)
        for token in event.tokens:
            self._push(token, delta)
            if self.finish is not None:
                return delta
        if event.end is not None and not isinstance(event.end, Refusal):
            self.timed_out = event.end == "timeout"
            self._end("length", delta)
        return delta

    def _push(self, token: Token, delta: Delta) -> None:
        self.generated += 1
        if self._every_token:
            delta.tokens.append(token)
        if token.finish == "stop":
            self._end("stop", delta)
            return
        marker = token.id in self._special
        if not (self._every_token or marker):
            self._held.append(token)
        self._out(self._reader.push(token.id), delta)
        if marker:
            # What still waits belongs to the channel that the marker ends.
            self._held.clear()
        if self._reader.stopped or (self._one_call and self._reader.calls):
            self._by_text = True
            self.finish = "tool_calls" if self._reader.calls and not self._reader.stopped else "stop"
        elif token.finish is not None:
            self._end(token.finish, delta)

    def _end(self, finish: str, delta: Delta) -> None:
        self._out(self._reader.finish(), delta)
        # An answer that was cut is told as such, whatever calls it made before.
        self.finish = "tool_calls" if finish == "stop" and self._reader.calls else finish

    def _out(self, events: list[TextEvent], delta: Delta) -> None:
        for event in events:
            match event:
                case Content():
                    delta.content += event.text
                    delta.tokens.extend(self._held)
                case Reasoning():
                    delta.reasoning += event.text
                case _ if self._one_call and event.index > 0:
                    continue
                case _:
                    delta.calls.append(event)
            self._held.clear()

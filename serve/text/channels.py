"""Gemma 4's channels: thinking, tool calls and the answer itself, taken apart while they arrive.

    <|channel>thought\n...\n<channel|>answer          <|tool_call>call:name{...}<tool_call|>

Markers are special tokens and are told from text that merely looks like them. The rules, where the model strays:

- A call goes out when it is complete and understood, whole; until then it waits. A call that is cut off or malformed
  is content, markers and all: half a call must not be made, and nothing of it is lost. (Agents have acted on calls
  cut by the token limit: ollama/ollama#17564.)
- Between quote tokens every marker is text: an argument may speak of markers (vllm-project/vllm#43850).
- A call or the end of the answer also ends the thinking channel.
- The model may leave `<|tool_call>` out after its thoughts (vllm-project/vllm#54256): `call:` and the name of a tool
  that was offered, at the start of the answer or just after a channel, begin a call too.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable
from enum import Enum, auto

from serve.text.calls import QUOTE, parse_calls
from serve.text.events import Content, Event, Reasoning, ToolCallArguments, ToolCallStart

CHANNEL_OPEN, CHANNEL_CLOSE = "<|channel>", "<channel|>"
CALL_OPEN, CALL_CLOSE = "<|tool_call>", "<tool_call|>"
QUOTE_TOKEN = '<|"|>'
TURN_OPEN = "<|turn>"
_CHANNEL = frozenset({CHANNEL_OPEN, CHANNEL_CLOSE})
_CALL = frozenset({CALL_OPEN, CALL_CLOSE, QUOTE_TOKEN})
_LABEL = "thought\n"


class _State(Enum):
    START = auto()  # of the answer: a call without its marker may come
    CONTENT = auto()
    LABEL = auto()  # of the thinking channel
    THOUGHT = auto()
    CALL = auto()


def new_call_id() -> str:
    """An id that no other call has."""
    return f"call_{secrets.token_hex(12)}"


class Channels:
    """Turns the text and the markers of one answer into events; text is everything but special tokens."""

    def __init__(
        self, tools: Iterable[str] = (), *, in_thought: bool = False, new_id: Callable[[], str] = new_call_id
    ) -> None:
        """`tools` names what was offered; without any, calls are content.

        `in_thought`: the prompt ends inside the thinking channel.
        """
        self._bare_calls = tuple(f"call:{name}{{" for name in tools)
        self._new_id = new_id
        self._state = _State.LABEL if in_thought else _State.START
        self._waiting = ""  # text whose meaning is open: a label, a bare call's beginning, the newline before a close
        self._opening = ""  # the marker that began the call, empty for a bare one
        self._body: list[str] = []
        self._quoted = False
        self.calls = 0

    def heeds(self, marker: str) -> bool:
        """Whether a special token means anything here; others are left out of answers."""
        return marker in _CHANNEL or marker in _CALL or self._state is _State.CALL

    def text(self, text: str) -> list[Event]:
        """Take text that is not empty."""
        match self._state:
            case _State.CALL:
                self._body.append(text)
                return []
            case _State.CONTENT:
                return [Content(text)]
            case _State.THOUGHT:
                return self._think(text)
            case _State.LABEL:
                return self._label(text)
            case _State.START:
                return self._begin(text)

    def marker(self, marker: str) -> list[Event]:
        """Take a special token that `heeds` was true for."""
        if self._state is _State.CALL:
            return self._marker_in_call(marker)
        if marker == CHANNEL_OPEN:
            events = self._settle()
            self._state = _State.LABEL
        elif marker == CHANNEL_CLOSE:
            events = self._settle()
            self._state = _State.START
        elif marker == CALL_OPEN and self._bare_calls:
            events = self._settle()
            self._open_call(marker)
        elif marker == CALL_OPEN or self._state in (_State.START, _State.CONTENT):
            events = [*self._settle(), Content(marker)]
            self._state = _State.CONTENT
        else:
            events = self.text(marker)
        return events

    def finish(self) -> list[Event]:
        """The answer has ended."""
        return self._close_call("") if self._state is _State.CALL else self._settle()

    def _begin(self, text: str) -> list[Event]:
        """Text at the start of the answer: wait while it may be a call that lacks its marker."""
        call = text if self._waiting else text.lstrip()
        space: list[Event] = [Content(text[: len(text) - len(call)])] if len(call) < len(text) else []
        self._waiting += call
        if self._waiting.startswith(self._bare_calls):
            body, self._waiting = self._waiting, ""
            self._open_call("")
            self._body.append(body)
            return space
        if any(start.startswith(self._waiting) for start in self._bare_calls) or not self._waiting:
            return space
        return [*space, *self._settle()]

    def _label(self, text: str) -> list[Event]:
        """Text just after the channel was opened: the label is not part of the thoughts."""
        self._waiting += text
        if _LABEL.startswith(self._waiting) and self._waiting != _LABEL:
            return []
        thoughts, self._waiting = self._waiting.removeprefix(_LABEL), ""
        self._state = _State.THOUGHT
        return self._think(thoughts) if thoughts else []

    def _think(self, text: str) -> list[Event]:
        """Thoughts, but for one newline at their end, which may belong to the closing marker."""
        text = self._waiting + text
        self._waiting = "\n" if text.endswith("\n") else ""
        text = text.removesuffix("\n")
        return [Reasoning(text)] if text else []

    def _settle(self) -> list[Event]:
        """What waited was content after all, or belonged to the markers of the thinking channel; content follows."""
        waiting, self._waiting = self._waiting, ""
        framing = self._state in (_State.LABEL, _State.THOUGHT)
        self._state = _State.CONTENT
        return [Content(waiting)] if waiting and not framing else []

    def _open_call(self, marker: str) -> None:
        self._state, self._opening, self._body, self._quoted = _State.CALL, marker, [], False

    def _marker_in_call(self, marker: str) -> list[Event]:
        if marker == QUOTE_TOKEN:
            self._quoted = not self._quoted
            self._body.append(QUOTE)
        elif self._quoted or marker not in _CHANNEL | _CALL:
            self._body.append(marker)
        elif marker == CALL_CLOSE:
            return self._close_call(marker)
        else:
            return [*self._close_call(""), *self.marker(marker)]
        return []

    def _close_call(self, marker: str) -> list[Event]:
        """The events of a call, or its text if it is none; content follows."""
        body, self._body = "".join(self._body), []
        self._state = _State.CONTENT
        calls = parse_calls(body)
        if calls is None:
            text = self._opening + body.replace(QUOTE, QUOTE_TOKEN) + marker
            return [Content(text)] if text else []
        events: list[Event] = []
        for call in calls:
            events += [
                ToolCallStart(self.calls, self._new_id(), call.name),
                ToolCallArguments(self.calls, call.arguments),
            ]
            self.calls += 1
        return events

"""One answer: token ids in, events out."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from serve.text.channels import CHANNEL_CLOSE, CHANNEL_OPEN, TURN_OPEN, Channels
from serve.text.decoder import Decoder
from serve.text.events import Content, Event
from serve.text.pieces import Pieces
from serve.text.stops import Stops


class Reader:
    """Decoder, channels and stops in a chain; the ids that end an answer are not pushed."""

    def __init__(self, pieces: Pieces, stops: Stops, channels: Channels | None, *, skip_special: bool = True) -> None:
        """Without `channels` everything is content: a completion, not a chat. Then `skip_special` says what happens
        to special tokens; with channels, those that mean something are heeded and others left out.

        Stops look at content alone, all of it in a row: neither thoughts nor the arguments of a call are cut.
        """
        self._special = pieces.special
        self._decoder = Decoder(pieces, skip_special=skip_special or channels is not None)
        self._stops = stops
        self._channels = channels

    @property
    def stopped(self) -> bool:
        """Whether a stop string was met: the answer is over, whatever is pushed now is ignored."""
        return self._stops.hit is not None

    @property
    def calls(self) -> int:
        """How many tool calls went out."""
        return 0 if self._channels is None else self._channels.calls

    def push(self, id_: int) -> list[Event]:
        """What may go out now that this token is there."""
        if self.stopped:
            return []
        marker = self._special.get(id_) if self._channels is not None else None
        if self._channels is None or marker is None or not self._channels.heeds(marker):
            return self._out(self._texts(self._decoder.push(id_)))
        return self._out([*self._texts(self._decoder.finish()), *self._channels.marker(marker)])

    def finish(self) -> list[Event]:
        """The rest: characters, calls and possible stops that no token completed."""
        if self.stopped:
            return []
        rest = self._texts(self._decoder.finish())
        events = self._out(rest if self._channels is None else [*rest, *self._channels.finish()])
        held = self._stops.finish()
        return [*events, Content(held)] if held else events

    def _texts(self, text: str) -> list[Event]:
        if not text:
            return []
        return [Content(text)] if self._channels is None else self._channels.text(text)

    def _out(self, events: Iterable[Event]) -> list[Event]:
        out: list[Event] = []
        for event in events:
            if not isinstance(event, Content):
                out.append(event)
                continue
            text, _ = self._stops.push(event.text)
            if text:
                out.append(Content(text))
        return out


def ends_in_thought(prompt: Sequence[int], special: dict[int, str]) -> bool:
    """Whether the last turn of `prompt` has a channel open, so that the answer goes on inside it.

    Some templates end so after a tool's answer (vllm-project/vllm#48262).
    """
    for id_ in reversed(prompt):
        marker = special.get(id_)
        if marker in (CHANNEL_OPEN, CHANNEL_CLOSE, TURN_OPEN):
            return marker == CHANNEL_OPEN
    return False

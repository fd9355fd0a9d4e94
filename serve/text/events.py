"""What an answer is made of, in the order in which it goes out."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Content:
    """A piece of the answer itself; never empty."""

    text: str


@dataclass(frozen=True, slots=True)
class Reasoning:
    """A piece of the thinking channel, without its markers and label; never empty."""

    text: str


@dataclass(frozen=True, slots=True)
class ToolCallStart:
    """A call begins; `index` counts the calls of one answer from 0, `id` is `call_` and 24 hexadecimal digits."""

    index: int
    id: str
    name: str


@dataclass(frozen=True, slots=True)
class ToolCallArguments:
    """A piece of the arguments of call `index`; all pieces of a call together are one JSON object."""

    index: int
    fragment: str


Event = Content | Reasoning | ToolCallStart | ToolCallArguments

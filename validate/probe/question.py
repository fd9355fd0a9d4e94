"""A question, and an answer as items give it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Question:
    """What is asked; `section` is where the notes on the SDK leave it open, `call` is MODULE:FUNCTION.

    `seconds` is what it may take at most, `device` whether it needs a NeuronCore.
    """

    id: str
    question: str
    section: str
    call: str
    seconds: float = 60
    device: bool = True


@dataclass(frozen=True)
class Answer:
    """A word or a short sentence, and what it rests on, as JSON."""

    answer: str
    evidence: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Work:
    """The folders of one question: its own, and one that all questions of a run share.

    `shared` has `host.json`, what `tiny` left, and graphs that later questions load again.
    """

    own: str
    shared: str

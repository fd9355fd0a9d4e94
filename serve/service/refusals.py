"""Why the service does not answer: each is one sentence for the client, and how long to wait where waiting helps."""

from __future__ import annotations

from typing import Literal

Kind = Literal["overloaded", "too_large", "loading", "draining", "failed"]


class Refusal(Exception):  # noqa: N818 - no fault: the service is well and says no
    """A request that is not answered; `retry_after` is in seconds, None where another try would fail as well."""

    def __init__(self, kind: Kind, sentence: str, retry_after: float | None = None) -> None:
        super().__init__(sentence)
        self.kind: Kind = kind
        self.retry_after = retry_after


def failed() -> Refusal:
    """The engine has failed: an exception of its own each time, as one that is raised keeps its traceback."""
    return Refusal("failed", "the engine has failed; the server is about to exit")

"""How much the service takes on, and for how long."""

from __future__ import annotations

from dataclasses import dataclass

from serve.service.refusals import Refusal


@dataclass(frozen=True, slots=True)
class Limits:
    """What is admitted beside what the slots hold. An answer is one prompt's continuation: a request may ask for more.

    `queue` answers may wait, with those in the slots for at most `prompt_tokens` prompt tokens in all (0: as many as
    fill all slots and half of the queue, four prompts at least). A request that waited `queue_seconds` for its first
    slot is refused, one that is `total_seconds` old ends where it is.
    """

    queue: int = 64
    prompt_tokens: int = 0
    queue_seconds: float = 30.0
    total_seconds: float = 600.0


class Gate:
    """Counts what is admitted. Only the event loop calls it, so that each call is one step that no other sees half."""

    def __init__(self, limits: Limits, slots: int, kv_max: int) -> None:
        self.slots, self.capacity = slots, slots + limits.queue
        self.most_tokens = limits.prompt_tokens or kv_max * (slots + max(4, limits.queue // 2))
        self.answers = 0
        self.tokens = 0

    def enter(self, answers: int, tokens: int, retry_after: float) -> None:
        """Admit `answers` with `tokens` prompt tokens in all; Refusal when they do not fit beside what is there.

        A gate with nothing inside lets any number of tokens through: one prompt must not wait for ever.
        """
        if answers > self.capacity:
            raise Refusal("too_large", f"the request asks for {answers} answers; at most {self.capacity} are accepted")
        if self.answers + answers > self.capacity:
            raise Refusal("overloaded", f"{self.answers} of {self.capacity} places are taken; try again", retry_after)
        if self.answers and self.tokens + tokens > self.most_tokens:
            sentence = f"prompts of {self.tokens} tokens are being worked on; at most {self.most_tokens}; try again"
            raise Refusal("overloaded", sentence, retry_after)
        self.answers += answers
        self.tokens += tokens

    def leave(self, answers: int, tokens: int) -> None:
        """Give places back."""
        self.answers -= answers
        self.tokens -= tokens

"""The known prompt and answer that a server checks itself with when it starts, taken from what parity has judged.

Whoever runs the artifact later may have another processor, whose rounding differs: an answer is recorded only as far
as the oracle was decided at every token, so that what fails there is a fault and no rounding.
"""

from __future__ import annotations

from typing import Any

from validate.findings import Report
from validate.records import Oracle, Prompt, PromptSet

MOST = 16
"""Tokens of an answer: a start must not wait for more."""
ENOUGH = 8
"""Tokens of an answer, or of a prompt, beyond which a longer one tells no more than a shorter."""


def selfcheck(asked: PromptSet, oracle: Oracle, report: Report, margin: float) -> dict[str, Any] | None:
    """`{"prompt": [ids], "tokens": [ids]}`, greedy, or None when parity failed or no first token was decided.

    The shortest prompt of `ENOUGH` ids or more whose every run agreed, without exemption, and whose answer has
    `ENOUGH` tokens before the oracle's gap first is under `margin` (logits); else what comes nearest to that. As the
    runs agreed, the oracle's tokens are the artifact's own.
    """
    if not report.passed:
        return None
    differed = {one["prompt"] for one in report.exemptions}
    known = {(answer.ids, answer.stop): answer for answer in oracle.answers}

    def decided(prompt: Prompt) -> list[int]:
        answer, tokens = known[prompt.ids, prompt.stop], []
        for token, gap in list(zip(answer.tokens, answer.gaps, strict=True))[: min(MOST, prompt.max_new)]:
            if gap < margin:
                break
            tokens.append(token)
        return tokens

    pairs = [(prompt.ids, decided(prompt)) for prompt in asked.prompts if prompt.name not in differed]
    ids, tokens = min(
        pairs, key=lambda pair: (-min(len(pair[1]), ENOUGH), -min(len(pair[0]), ENOUGH), len(pair[0])), default=((), [])
    )
    return {"prompt": list(ids), "tokens": tokens} if tokens else None

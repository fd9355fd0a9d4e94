"""What one subject did with one prompt set: counts, differences, and the sentences about them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from validate.compare import Difference

BEYOND = 1e9
"""Nats: stands for a difference that is no finite number."""


@dataclass
class Report:
    """What one subject did with one prompt set."""

    prompts: int = 0
    tokens: int = 0
    agreed: int = 0
    heldout_tokens: int = 0
    heldout_agreed: int = 0
    mismatches: list[dict[str, Any]] = field(default_factory=list)
    exemptions: list[dict[str, Any]] = field(default_factory=list)
    checks: dict[str, int] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)
    logprob_differences: list[float] = field(default_factory=list)

    @property
    def passed(self) -> bool:
        """Whether nothing differed that may not differ."""
        return not self.mismatches

    def facts(self) -> dict[str, Any]:
        """The deterministic part, for a receipt; `agreement` is the share of positions that are equal.

        The differences of held-out log-probabilities (nats, absolute) tell rounding from a fault that changes no token.
        They are reported; the verdict is made of tokens alone.
        """
        differences = self.logprob_differences
        return {
            "prompts": self.prompts,
            "tokens": self.tokens,
            "agreement": self.agreed / self.tokens if self.tokens else 1.0,
            "heldout": {
                "tokens": self.heldout_tokens,
                "agreement": self.heldout_agreed / self.heldout_tokens if self.heldout_tokens else 1.0,
                "logprob_difference": {
                    "mean": round(sum(differences) / len(differences), 6) if differences else 0.0,
                    "max": round(max(differences, default=0.0), 6),
                },
            },
            "mismatches": self.mismatches,
            "exemptions": self.exemptions,
            "checks": self.checks,
        }

    def add(self, check: str, prompt: str, mismatches: Iterable[Difference], exempt: Iterable[Difference] = ()) -> None:
        """Note what differed in one run, and that it was run."""
        self.checks[check] = self.checks.get(check, 0) + 1
        self.mismatches += [{"check": check, "prompt": prompt} | asdict(one) for one in mismatches]
        self.exemptions += [{"check": check, "prompt": prompt} | asdict(one) for one in exempt]

    def compare_logprobs(self, expected: Sequence[float | None], got: Sequence[float | None]) -> None:
        """Note how far log-probabilities are apart, where both sides have one."""
        pairs = zip(expected, got, strict=False)
        differences = (abs(a - b) for a, b in pairs if a is not None and b is not None)
        # A broken build says NaN or minus infinity, which no receipt can hold.
        self.logprob_differences += [one if math.isfinite(one) else BEYOND for one in differences]


def sentences(report: Report, limit: int = 10) -> str:
    """The mismatches for a person, one a line, the first `limit` of them."""
    lines = [
        f"{one['check']}: prompt {one['prompt']}, position {one['position']}: expected {one['expected']}, "
        f"got {one['got']}, gap {'none' if one['gap'] is None else format(one['gap'], '.6f')}"
        for one in report.mismatches[:limit]
    ]
    rest = len(report.mismatches) - len(lines)
    return "\n".join([*lines, f"and {rest} more"] if rest else lines)

"""What one subject did with one prompt set: counts, differences, and the sentences about them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from validate.compare import Difference

BEYOND = 1e9
"""Nats: stands for a difference that is no finite number."""
LOGPROBS = "heldout-logprobs"
"""The check of held-out log-probabilities; its mismatches are of nats, where those of the others are of token ids."""


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
        """Whether nothing differed that may not differ, in tokens or in held-out log-probabilities."""
        return not self.mismatches

    def facts(self) -> dict[str, Any]:
        """The deterministic part, for a receipt; `agreement` is the share of positions that are equal.

        The differences of held-out log-probabilities (nats, absolute) tell rounding from a fault that changes no token.
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

    def compare_logprobs(
        self, window: str, expected: Sequence[float | None], got: Sequence[float | None], tolerance: float | None
    ) -> None:
        """Note how far log-probabilities are apart, where one is expected; beyond `tolerance` (nats) is a mismatch.

        Only the position where they are farthest apart becomes a mismatch. Without a tolerance nothing does.
        """
        apart = {
            position: BEYOND if found is None else _difference(wanted, found)
            for position, (wanted, found) in enumerate(zip(expected, got, strict=False))
            if wanted is not None
        }
        self.logprob_differences += apart.values()
        if tolerance is None:
            return
        self.checks[LOGPROBS] = self.checks.get(LOGPROBS, 0) + 1
        worst = max(apart, key=apart.__getitem__, default=None)
        if worst is None or apart[worst] <= tolerance:
            return
        said = got[worst]
        finite = said if said is not None and math.isfinite(said) else None
        place = {"check": LOGPROBS, "prompt": window, "position": worst}
        self.mismatches.append(place | {"expected": expected[worst], "got": finite, "gap": None, "limit": tolerance})


def sentences(report: Report, limit: int = 10) -> str:
    """The mismatches for a person, one a line, the first `limit` of them."""
    lines = [_sentence(one) for one in report.mismatches[:limit]]
    rest = len(report.mismatches) - len(lines)
    return "\n".join([*lines, f"and {rest} more"] if rest else lines)


def _sentence(one: Mapping[str, Any]) -> str:
    place = f"{one['check']}: prompt {one['prompt']}, position {one['position']}: expected "
    if one["check"] == LOGPROBS:
        got = "no finite number" if one["got"] is None else f"{one['got']:.6f}"
        return f"{place}{one['expected']:.6f} nats, got {got}, accepted: at most {one['limit']} apart"
    gap = "none" if one["gap"] is None else f"{one['gap']:.6f}"
    return f"{place}{one['expected']}, got {one['got']}, gap {gap}"


def _difference(expected: float, got: float) -> float:
    apart = abs(expected - got)
    # A broken build says NaN or minus infinity, which no receipt can hold.
    return apart if math.isfinite(apart) else BEYOND

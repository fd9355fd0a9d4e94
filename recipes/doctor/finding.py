"""One thing that the doctor looked at."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal

from ledger.columns import aligned

State = Literal["ok", "note", "unknown", "missing", "wrong"]


@dataclass(frozen=True)
class Finding:
    """What was found against what is accepted; `how` is one sentence, for whatever is not ok."""

    name: str
    state: State
    found: str
    accepted: str = ""
    how: str = ""

    @property
    def blocks(self) -> bool:
        """Whether the role cannot work with this."""
        return self.state in {"missing", "wrong"}

    def as_json(self) -> dict[str, Any]:
        """The finding for machines."""
        return asdict(self)


def lines_of(findings: list[Finding]) -> list[str]:
    """A table for people, and below it what to do, said once for all that it mends."""
    rows = [("", "what", "found", "accepted"), *((f.state, f.name, f.found, f.accepted) for f in findings)]
    mended: dict[tuple[State, str], list[str]] = {}
    for finding in findings:
        if finding.how:
            mended.setdefault((finding.state, finding.how), []).append(finding.name)
    advice = [f"{state}: {', '.join(names)}: {how}" for (state, how), names in mended.items()]
    return aligned(rows) + advice

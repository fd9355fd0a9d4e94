"""What a look at the Hub found, as a file: written by `recipes.hub.upstream`, read by the report.

Apart from the client library on purpose: the report reads it and reaches no network.
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import Field, ValidationError

from config.base import Revision, Strict
from ledger.errors import BadInput, explain

LARGEST = 2**63 - 1
"""Bytes of a file, at most."""
State = Literal["same", "changed", "gone", "unknown", "unwatched"]


class Content(Strict):
    """One version of a file: its sha256 if it is a large one, its git blob id if not, and its size."""

    digest: str = Field(pattern=r"^([0-9a-f]{40}|[0-9a-f]{64})$")
    bytes: int = Field(ge=0, le=LARGEST)


class Difference(Strict):
    """A file that is not the same in both commits; None where it is not there."""

    name: str
    pinned: Content | None
    head: Content | None
    fetched: bool = Field(description="whether a build reads files of this name")

    @property
    def change(self) -> str:
        """One word for it."""
        if self.pinned is None:
            return "added"
        return "changed" if self.head else "removed"


class Watched(Strict):
    """One checkpoint: what is pinned beside what the Hub has.

    `same`: the head is the pinned commit. `changed`: it is another, and `files` may still be empty. `gone`: the
    repository no longer has the pinned commit. `unknown`: nobody could tell, and `reason` says why. `unwatched`: the
    source is no repository of the Hub.
    """

    state: State
    repo: str | None = None
    pinned: Revision | None = None
    head: Revision | None = None
    files: tuple[Difference, ...] = ()
    reason: str | None = None

    @property
    def open(self) -> bool:
        """Whether a person has something to decide or to find out."""
        return self.state in ("changed", "gone", "unknown")

    def sentence(self, checkpoint: str) -> str:
        """What was found, for people."""
        match self.state:
            case "same":
                return f"{checkpoint}: {self.repo} is still at the pinned commit {_short(self.pinned)}."
            case "changed":
                moved = f"{checkpoint}: {self.repo} moved from {_short(self.pinned)} to {_short(self.head)}"
                return f"{moved}: {_counted(self.files)}{f'; {self.reason}' if self.reason else ''}."
            case "gone":
                return (
                    f"{checkpoint}: {self.repo} no longer has the pinned commit {_short(self.pinned)}; "
                    f"it is at {_short(self.head)}."
                )
            case "unknown":
                return f"{checkpoint}: unknown: {self.reason}."
            case _:
                return f"{checkpoint}: not watched: {self.reason}."


class Upstream(Strict):
    """Every checkpoint of a configuration, as the Hub had it at one moment."""

    asked: str = Field(description="when: ISO 8601, UTC")
    endpoint: str = Field(description="address of the Hub that was asked")
    checkpoints: dict[str, Watched]

    @property
    def open(self) -> list[str]:
        """A sentence for each checkpoint that differs or is unknown."""
        return [one.sentence(name) for name, one in self.checkpoints.items() if one.open]


def read(path: Path, flag: str) -> Upstream:
    """The findings in a file; BadInput names `flag`, the file and the first key that is wrong."""
    try:
        return Upstream.model_validate_json(path.read_bytes())
    except OSError as error:
        raise BadInput(f"{flag} {path} cannot be read: {error.strerror}; accepted: a readable file") from None
    except ValidationError as error:
        raise BadInput(explain(error, f"{flag} {path}", Upstream)) from None


def _short(commit: str | None) -> str:
    return (commit or "nothing")[:12]


def _counted(files: tuple[Difference, ...]) -> str:
    if not files:
        return "every file is the same"
    kinds = [one.change for one in files]
    told = [f"{kinds.count(kind)} {kind}" for kind in ("changed", "added", "removed") if kind in kinds]
    read = sum(one.fetched for one in files)
    return f"{', '.join(told)}, {read} of them read by a build"

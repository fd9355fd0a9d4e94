"""The two files that parity is judged from: a set of prompts, and what the oracle answered to them.

Both are plain JSON behind pydantic models, so that the process under test reads them without torch. An answer repeats
the prompt's ids: whoever holds an oracle file can check that it speaks of the same prompt, not of one of the same
name.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Self, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from ledger.digest import parse_json
from ledger.errors import BadInput, explain

Id = Annotated[int, Field(ge=0)]
Ids = tuple[Id, ...]
F = TypeVar("F", bound="Record")


class Record(BaseModel):
    """Frozen, nothing unknown in it, no NaN."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class Prompt(Record):
    """One request: `ids` [n], answered by at most `max_new` tokens; with `stop` the checkpoint's stop ids end it."""

    name: str
    kind: str
    ids: Annotated[Ids, Field(min_length=1)]
    max_new: int = Field(ge=1)
    stop: bool


class Heldout(Record):
    """A window of text that no training saw, `ids` [n]; every position is judged on the same, given, history."""

    name: str
    ids: Annotated[Ids, Field(min_length=2)]


class PromptSet(Record):
    """What every variant of one size is asked."""

    prompts: Annotated[tuple[Prompt, ...], Field(min_length=1)]
    heldout: tuple[Heldout, ...] = ()

    @model_validator(mode="after")
    def _names_are_unique(self) -> Self:
        names = [prompt.name for prompt in self.prompts]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise ValueError(f"prompts: found the name {twice[0]!r} more than once; accepted: each name once")
        return self


class _Judged(Record):
    ids: Ids
    tokens: Ids
    gaps: tuple[float, ...] = Field(description="per token: the oracle's logit of it minus its next best logit")

    @model_validator(mode="after")
    def _one_gap_each(self) -> Self:
        if len(self.tokens) != len(self.gaps):
            raise ValueError(f"gaps: found {len(self.gaps)}; accepted: {len(self.tokens)}, one for each token")
        return self


class Answer(_Judged):
    """The oracle's greedy answer to one prompt, asked with `max_new` and `stop` as in Prompt.

    `tokens`, `gaps` and `tops` (the logit of each token) are all [m].
    """

    name: str
    max_new: int = Field(ge=1)
    stop: bool
    tops: tuple[float, ...]


class HeldoutAnswer(_Judged):
    """The oracle's choice after every id of a held-out window: `tokens` and `gaps` have one entry per id.

    `logprobs` are those of the id that really follows, so there is one less of them; a suppressed id has none.
    """

    name: str
    logprobs: tuple[float | None, ...]

    @model_validator(mode="after")
    def _one_logprob_each(self) -> Self:
        if len(self.logprobs) != len(self.ids) - 1 or len(self.tokens) != len(self.ids):
            raise ValueError(
                f"logprobs: found {len(self.logprobs)} beside {len(self.tokens)} tokens; accepted: a token for "
                f"each of the {len(self.ids)} ids, and a logprob for each but the last"
            )
        return self


class Oracle(Record):
    """What the oracle said to a prompt set, with what, and what is known about its quality."""

    library: str = Field(description="name and version of what made the answers")
    answers: tuple[Answer, ...]
    heldout: tuple[HeldoutAnswer, ...] = ()
    facts: dict[str, Any]


def read_record(path: Path, model: type[F]) -> F:
    """The record in a JSON file; BadInput names the file and the key that is wrong."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise BadInput(f"{path} cannot be read: {error.strerror}; accepted: a file made by the stage before") from None
    try:
        parse_json(data, str(path))
        return model.model_validate_json(data)
    except ValidationError as error:
        raise BadInput(explain(error, str(path), model)) from None

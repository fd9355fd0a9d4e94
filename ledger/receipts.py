"""Receipts, the edges of the DAG: what went into a stage, what came out, what was measured, and the verdict.

A receipt names objects of the store and never holds them. Followers key on its `digest`, which covers what
the stage made and not how it was made: a stage that runs again and makes the same thing leaves its
followers alone.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal, Self, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from ledger.atomic import write_json
from ledger.digest import digest_json, parse_json
from ledger.errors import BadInput, explain

M = TypeVar("M", bound=BaseModel)

Sha256 = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
# A part of names in a store.
StageName = Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]+$")]
Verdict = Literal["done", "passed", "failed"]


def parse_model(model: type[M], data: bytes, origin: str) -> M:
    """The `model` that the JSON in `data` holds; BadInput names `origin` if it is damaged."""
    try:
        return model.model_validate(parse_json(data, origin))
    except ValidationError as error:
        raise BadInput(explain(error, origin, model)) from None


class Ref(BaseModel):
    """The name of an object in the store: the sha256 of its content, and its size in bytes."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    sha256: Sha256
    bytes: Annotated[int, Field(ge=0)]


class Receipt(BaseModel):
    """One run of one stage."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    stage: StageName
    key: Sha256
    recipe: dict[str, Any]
    inputs: dict[str, Sha256]
    outputs: dict[str, Ref]
    facts: dict[str, Any]
    measured: dict[str, Any]
    toolchain: dict[str, str]
    source: str
    verdict: Verdict

    @property
    def digest(self) -> str:
        """What followers key on: stage, outputs, facts and verdict, and nothing that was measured."""
        outputs = {name: ref.model_dump() for name, ref in self.outputs.items()}
        made = {"stage": self.stage, "outputs": outputs, "facts": self.facts, "verdict": self.verdict}
        return digest_json(made)

    @classmethod
    def read(cls, path: Path) -> Self:
        """Read the receipt at `path`; BadInput names the file if it is missing or damaged."""
        try:
            data = path.read_bytes()
        except OSError as error:
            said = f"receipt {path} cannot be read: {error.strerror}"
            raise BadInput(f"{said}; accepted: a file that a stage wrote") from None
        return cls.parse(data, f"receipt {path}")

    @classmethod
    def parse(cls, data: bytes, origin: str) -> Self:
        """The receipt that `data` holds; BadInput names `origin` if it is damaged."""
        return parse_model(cls, data, origin)

    def write(self, path: Path) -> None:
        """Write the receipt, whole or not at all."""
        write_json(path, self.model_dump(mode="json"))

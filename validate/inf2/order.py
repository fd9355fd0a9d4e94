"""What a machine is asked to do: the order that the caller leaves on S3, and the names of what comes back.

The run's id covers what the two receipts depend on and is known here: recipes, inputs, the source of both stages and
the container, whose digest stands for the toolchain. Where the store is, and which machine it will be, is not part of
it.
"""

from __future__ import annotations

from typing import Any, Literal, Self

from pydantic import BaseModel, ConfigDict, model_validator

from ledger.digest import digest_json
from ledger.receipts import Receipt
from ledger.sources import source_digest
from serve.manifest import MANIFEST

StageName = Literal["parity", "bench"]

STAGES: dict[StageName, tuple[str, ...]] = {
    "parity": ("assemble", "oracle", "prompts"),
    "bench": ("fetch", "assemble", "parity"),
}
"""The inputs of each stage, in the order in which they run."""
MODULES: dict[StageName, str] = {"parity": "validate.parity", "bench": "validate.bench.stage"}
ORDER = "job.json"
PROBE = "probe.json"


class Step(BaseModel):
    """One stage: its recipe, and the source that it is to run."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    recipe: dict[str, Any]
    source: str


class Order(BaseModel):
    """Judge and time one artifact; `inputs` are the receipts that were there before, `image` the container."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    store: str
    image: str
    inputs: dict[str, Receipt]
    steps: dict[StageName, Step]

    @model_validator(mode="after")
    def _whole(self) -> Self:
        given = {label for labels in STAGES.values() for label in labels if label not in STAGES}
        for key, found, wanted in (("steps", self.steps, STAGES), ("inputs", self.inputs, given)):
            if set(found) != set(wanted):
                raise ValueError(f"{key}: found {sorted(found)}; accepted: {sorted(wanted)}")
        made = self.inputs["assemble"]
        match made.recipe:
            case {"checkpoint": str(), "variant": {"name": str()}} if MANIFEST in made.outputs:
                return self
        raise ValueError(
            f"inputs.assemble: found a recipe with {sorted(made.recipe)} and outputs {sorted(made.outputs)}; "
            f"accepted: checkpoint and variant, and {MANIFEST}"
        )

    @property
    def run(self) -> str:
        """The run's id."""
        known = {
            "image": self.image,
            "inputs": {name: receipt.digest for name, receipt in self.inputs.items()},
            "steps": {name: step.model_dump(mode="json") for name, step in self.steps.items()},
        }
        return digest_json(known)

    @property
    def name(self) -> str:
        """CHECKPOINT/VARIANT."""
        recipe = self.inputs["assemble"].recipe
        return f"{recipe['checkpoint']}/{recipe['variant']['name']}"


def source_of(stage: StageName) -> str:
    """The digest of what the stage runs, as its receipt has it."""
    return source_digest(MODULES[stage])


def receipt_name(stage: StageName) -> str:
    """The name on S3 of a receipt that is done or passed."""
    return f"receipts/{stage}.json"


def failed_name(stage: StageName) -> str:
    """The name on S3 of a receipt that says failed."""
    return f"receipts/{stage}.failed.json"


def log_name(attempt: int) -> str:
    """The name on S3 of what a machine prints."""
    return f"logs/{attempt}.txt"


def status_name(attempt: int) -> str:
    """The name on S3 of the exit code with which a machine has ended."""
    return f"status/{attempt}.json"

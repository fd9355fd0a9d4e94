"""What every configuration model has in common: nothing is guessed.

pydantic converts by default ("512" becomes 512, 1 becomes true) and ignores keys it does not know. Here a
value of another type and an unknown key are errors, and a model cannot be changed once it is read.
"""

from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, StringConstraints


def _is_no_folder_of_receipts(name: str) -> str:
    if name == "receipts":
        raise ValueError(f"found {name!r}; accepted: another name, as a receipt is known by the folder of that name")
    return name


Sha256 = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]
Revision = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{40}$")]
# Names become folders, image tags and rule wildcards: no slash, no leading dot or dash, and short enough that
# a folder's name of several of them still is one (255 bytes).
Name = Annotated[
    str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9.-]*$", max_length=64), AfterValidator(_is_no_folder_of_receipts)
]
CheckpointName = Annotated[
    str,
    StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9.-]*$", max_length=64),
    AfterValidator(_is_no_folder_of_receipts),
]
# Seeds go to torch and numpy, which take 64 bits.
LARGEST_SEED = 2**63 - 1


def as_tuple(items: Any, what: str) -> tuple[Any, ...]:
    """The tuple that a strict field wants, of the list that YAML gives; ValueError for anything else."""
    if not isinstance(items, list | tuple):
        raise ValueError(f"found {items!r}; accepted: {what}")
    return tuple(items)


class Strict(BaseModel):
    """A frozen model without conversions and without unknown keys."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)

"""Where a checkpoint comes from: built here, a folder on disk, or a pinned revision of a hub repository.

A hub source has no default revision: a branch moves, and the same configuration would then build something
else.
"""

from typing import Annotated, Literal

from pydantic import Field

from config.base import LARGEST_SEED, Revision, Strict


class TinySource(Strict):
    """A small checkpoint in the official layout, trained here on the standard library's docstrings."""

    kind: Literal["tiny"] = Field(description="tiny: build a small checkpoint here, no download")
    seed: int = Field(
        default=0, ge=0, le=LARGEST_SEED, description="seed of the initial weights and of the order of the text"
    )
    steps: int = Field(default=500, ge=1, description="training steps; more steps, larger logit gaps")


class GeometrySource(Strict):
    """Random weights at the true size of the checkpoint's geometry, for measuring without Google's files."""

    kind: Literal["geometry"] = Field(description="geometry: write random weights at full size, no download")
    seed: int = Field(default=0, ge=0, le=LARGEST_SEED, description="seed of the weights")


class PathSource(Strict):
    """A checkpoint folder on this machine."""

    kind: Literal["path"] = Field(description="path: read a folder in the official layout")
    path: str = Field(
        min_length=1, max_length=1000, description="the folder, absolute or relative to the working directory"
    )


class HubSource(Strict):
    """A pinned revision of a repository on the Hugging Face hub."""

    kind: Literal["hub"] = Field(description="hub: download a pinned revision")
    repo: str = Field(
        pattern=r"^[A-Za-z0-9_.-]+/[A-Za-z0-9_.-]+$", description="owner/name of the repository on the hub"
    )
    revision: Revision = Field(description="commit of the repository, 40 hexadecimal digits; branches are refused")


Source = Annotated[TinySource | GeometrySource | PathSource | HubSource, Field(discriminator="kind")]

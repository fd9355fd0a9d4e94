"""What was pulled back from staging, as facts: digests of every file, verdicts on every signature."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from ledger.receipts import Ref, Sha256

Digest = Annotated[str, Field(pattern=r"^sha256:[0-9a-f]{64}$")]
Commit = Annotated[str, Field(pattern=r"^[0-9a-f]{40}$")]


class _Facts(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Folder(_Facts):
    """A signed folder: its files by path, the receipts in it by stage (or variant/stage), and the judge's verdict.

    `unlicensed` names packages in its bill of materials without a licence or its text.
    """

    files: dict[str, Ref]
    receipts: dict[str, Sha256]
    unlicensed: tuple[str, ...]
    verdict: str
    sentence: str


class PulledImage(_Facts):
    """An image and the attestation that belongs to it, each by the digest it was pulled by."""

    digest: Digest
    attestation: Digest
    folder: Folder


class Pulled(_Facts):
    """A release as it is on staging: a commit of the Hub repository, and an image for each variant."""

    commit: Commit
    release: Folder
    images: dict[str, PulledImage]

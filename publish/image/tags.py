"""The tags of a variant's image. People deploy a digest; tags are for finding it."""

from __future__ import annotations

import re
from dataclasses import dataclass

from config.models import Release
from config.variant import Target
from ledger.errors import BadInput

LATEST = "latest"
# https://github.com/opencontainers/distribution-spec/blob/v1.1.0/spec.md#pulling-manifests
_TAG = re.compile(r"[a-zA-Z0-9_][a-zA-Z0-9._-]{0,127}")


@dataclass(frozen=True)
class Tags:
    """`fixed` never moves once it was pushed; `moving` follow from release to release."""

    fixed: str
    moving: tuple[str, ...]

    @property
    def all(self) -> tuple[str, ...]:
        """The fixed one first."""
        return (self.fixed, *self.moving)


def tags(release: Release, variant: str, target: Target, version: str) -> Tags:
    """`<version>-512-128`, and the moving `512-128` and, where the release says so, `latest`.

    Inferentia2 has the plain names; those of target cpu end in `-cpu`. Raises BadInput for what no registry takes.
    """
    suffix = "-cpu" if target == "cpu" else ""
    names = [variant, LATEST] if variant == release.latest else [variant]
    moving = tuple(name + suffix for name in names)
    found = Tags(f"{version}-{moving[0]}", moving)
    for tag in found.all:
        if not _TAG.fullmatch(tag):
            raise BadInput(f"tag {tag!r} of release {release.name}; accepted: at most 128 letters, digits and . _ -")
    return found

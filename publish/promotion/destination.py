"""Where one release goes: the names of its repositories, tags and branches."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field

from config.models import Checkpoint
from config.publishing import Publish
from publish.image.tags import tags

BRANCH = "staging"


class Destination(BaseModel):
    """The image repository, the Hub repository, and what is called how in them."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    image: str = Field(description="REGISTRY/NAME")
    repo: str = Field(description="OWNER/NAME on the Hub")
    endpoint: str | None = Field(description="address of the Hub; None: the public one")
    version: str = Field(description="the release's git tag")
    fixed: dict[str, str] = Field(min_length=1, description="the image tag of each variant, which never moves")
    moving: dict[str, str] = Field(description="the variant of each image tag that moves from release to release")

    @property
    def variants(self) -> tuple[str, ...]:
        """Names of the variants."""
        return tuple(self.fixed)

    def staging_tag(self, variant: str) -> str:
        """The image tag under which a variant waits to be verified."""
        return f"staging-{self.fixed[variant]}"


def destination_of(publish: Publish, checkpoint: Checkpoint) -> Destination:
    """Where the release of `checkpoint` goes."""
    release = checkpoint.release
    named = {one.name: tags(release, one.name, one.target, publish.version) for one in checkpoint.variants}
    return Destination(
        image=f"{publish.registry}/{release.name}",
        repo=f"{publish.hub}/{release.name}",
        endpoint=publish.endpoint,
        version=publish.version,
        fixed={variant: one.fixed for variant, one in named.items()},
        moving={tag: variant for variant, one in named.items() for tag in one.moving},
    )

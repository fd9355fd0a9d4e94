"""Where a release goes and who signs it: the section `publish` of a configuration.

Nothing of it has a default that reaches a network or names a key. Repositories are named by what they lie below, as
each checkpoint is published under its own `release.name`.
"""

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

from pydantic import Field, StringConstraints, field_validator, model_validator

from config.base import Strict, as_tuple

if TYPE_CHECKING:
    from config.models import Checkpoint

# A dash ends it in a tag.
Version = Annotated[str, StringConstraints(pattern=r"^v[0-9][0-9A-Za-z._]*$", max_length=32)]
# Beginnings of image tags that are not a variant's own: those of a release, of what waits to be verified, and of what
# belongs to a digest. Those of a cpu image end in -cpu.
_TAKEN = re.compile(r"(v[0-9][0-9A-Za-z._]*|staging|sha256)-.*|latest")
_CPU = "-cpu"
# A last component of an image's name (distribution spec), and less than the Hub takes: "--" and "..", and ".git" at
# the end, are refused there.
_REPOSITORY = re.compile(r"[a-z0-9]+([.-][a-z0-9]+)*(?<!\.git)")
# Goes through a shell, and is told to people as it stands.
FilePath = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_.:/+@~ -]+$", max_length=1000)]
Issuer = Annotated[str, StringConstraints(pattern=r"^https://[A-Za-z0-9.:/_-]+$", max_length=200)]
Subject = Annotated[str, StringConstraints(pattern=r"^[!-~]+$", max_length=300)]


class KeySigner(Strict):
    """A key that the publisher holds; no network is needed."""

    kind: Literal["key"] = Field(description="key: an EC private key in a file")
    key: FilePath = Field(description="the file, PEM without a password; it is read and never copied")


class Identity(Strict):
    """Somebody that an OpenID Connect issuer vouches for."""

    issuer: Issuer = Field(description="address of the OpenID Connect issuer")
    subject: Subject = Field(description="the e-mail address or workflow that it vouches for")


class KeylessSigner(Strict):
    """A short-lived certificate that Sigstore gives to an identity, and logs in public."""

    kind: Literal["keyless"] = Field(description="keyless: an identity, through Sigstore")
    issuer: Issuer = Field(description="address of the OpenID Connect issuer")
    subject: Subject = Field(description="the e-mail address or workflow that it vouches for")


Signer = Annotated[KeySigner | KeylessSigner, Field(discriminator="kind")]


class Publish(Strict):
    """Everything that publishing needs to know beyond the releases themselves."""

    version: Version = Field(
        description="prefix of the image tags of a release and its git tag on the Hub; one version is one content"
    )
    registry: str = Field(
        # With a dot, a port or as localhost: other programs take a bare name for a path in a registry of their choice.
        pattern=r"^(localhost(:[0-9]{1,5})?|[a-z0-9-]+:[0-9]{1,5}|[a-z0-9-]+(\.[a-z0-9-]+)+(:[0-9]{1,5})?)"
        r"(/[a-z0-9]+([._-]+[a-z0-9]+)*)*$",
        max_length=160,
        description="registry, and the path that images lie below: the image of a release is REGISTRY/<release.name>",
    )
    hub: str = Field(
        pattern=r"^[A-Za-z0-9]([A-Za-z0-9_.-]*[A-Za-z0-9])?$",
        max_length=96,
        description="owner on the Hub: the repository of a release is OWNER/<release.name>",
    )
    endpoint: str | None = Field(
        default=None,
        pattern=r"^https?://[A-Za-z0-9.:/_-]+$",
        description="address of the Hub; null: the public one, or what HF_ENDPOINT says",
    )
    runtime: str | None = Field(
        default=None,
        pattern=r"^[a-z0-9./:_-]+@sha256:[0-9a-f]{64}$",
        description="what images for inf2 stand on, by digest: the stage `runtime` of envs/Dockerfile, pushed to a "
        "registry; those for cpu need none",
    )
    signer: Signer = Field(description="who signs: kind key or keyless")
    trusted: tuple[FilePath, ...] = Field(
        default=(), description="files of public keys, PEM; what is promoted was signed with one, or by an identity"
    )
    identities: tuple[Identity, ...] = Field(
        default=(), description="identities that are trusted to sign without a key of their own"
    )
    trust_config: FilePath | None = Field(
        default=None,
        description="Sigstore's client trust configuration, for kind keyless where it is not the public one",
    )

    @field_validator("trusted", "identities", mode="before")
    @classmethod
    def _list_becomes_tuple(cls, items: Any) -> tuple[Any, ...]:
        return as_tuple(items, "a list")

    @model_validator(mode="after")
    def _somebody_is_trusted(self) -> Self:
        if not (self.trusted or self.identities):
            raise ValueError("trusted: found none; accepted: at least one file here, or one entry in identities")
        return self

    def refusal(self, checkpoints: Mapping[str, "Checkpoint"]) -> str | None:
        """Which key stands against publishing `checkpoints`, and why; None when each can be published."""
        names: set[str] = set()
        for key, checkpoint in checkpoints.items():
            name, where = checkpoint.release.name, f"checkpoints.{key}.release.name"
            if not _REPOSITORY.fullmatch(name):
                return f"{where}: found {name!r}; accepted: small letters and digits, single dots or dashes between"
            if name in names:
                return f"{where}: found {name!r} once more; accepted: each name once, as each is a repository"
            names.add(name)
            for index, variant in enumerate(checkpoint.variants):
                if _TAKEN.fullmatch(variant.name) or variant.name.endswith(_CPU):
                    return (
                        f"checkpoints.{key}.variants.{index}.name: found {variant.name!r}; accepted: a name that makes "
                        f"no other image tag: not latest, v1-..., staging-..., sha256-... or ...{_CPU}"
                    )
                if variant.target == "inf2" and self.runtime is None:
                    return f"publish.runtime: missing; accepted: REGISTRY/NAME@sha256:..., as {variant.name} needs it"
        return None

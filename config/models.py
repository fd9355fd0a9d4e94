"""The configuration of one run: which checkpoints, which variants of each, how they are judged and where
results go.

The models are the single source: the JSON schema and the default YAML are generated from them
(config/schema.py). Whatever can be known to be wrong before the first stage runs is an error here, so checks
reach across keys: a degree that does not divide the heads of the geometry, a context longer than the model
was made for.
"""

from collections import Counter
from pathlib import Path
from typing import Any, Self

from pydantic import Field, ValidationInfo, field_validator, model_validator

from config.base import LARGEST_SEED, CheckpointName, Name, Sha256, Strict, as_tuple
from config.cloud import Inf2
from config.geometry import Geometry, geometry_names, load_geometry
from config.publishing import Publish
from config.reference import reference_names
from config.sources import GeometrySource, HubSource, PathSource, Source, TinySource
from config.variant import DType, Kv, Target, TensorParallel, Variant
from ledger.errors import BadInput
from ledger.location import bucket_of

__all__ = [
    "Bench",
    "Checkpoint",
    "DType",
    "Factory",
    "GeometrySource",
    "HubSource",
    "Inf2",
    "Kv",
    "Parity",
    "PathSource",
    "Publish",
    "Release",
    "Source",
    "Target",
    "TensorParallel",
    "TinySource",
    "Variant",
]

SHARED = ("store", "image-cache")
"""Folders in results/ that belong to no run."""


class Release(Strict):
    """How the validated variants of a checkpoint are published."""

    name: Name = Field(description="name of the published repository and image")
    latest: Name = Field(description="the variant that the tag `latest` points to")


class Checkpoint(Strict):
    """One checkpoint and the variants that are built from it."""

    name: str = Field(default="", description="filled in from the key of the map; need not be given")
    source: Source = Field(description="where the files come from: kind tiny, path or hub")
    geometry: str | None = Field(
        default=None,
        description="file in config/geometry that config.json must equal; only kind path may leave it out",
    )
    licence: str = Field(
        default="apache-2.0",
        pattern=r"^[A-Za-z0-9.+-]+$",
        description="SPDX identifier of the weights' licence, in small letters",
    )
    files: dict[str, Sha256] = Field(
        default={}, description="pins: sha256 by file name; a file with another digest is refused"
    )
    template_sha256: Sha256 | None = Field(default=None, description="pin: sha256 of the chat template's text")
    reference: str | None = Field(
        default=None,
        description="file in config/reference with public vectors that the oracle must reproduce",
    )
    variants: tuple[Variant, ...] = Field(
        json_schema_extra={"minItems": 1},
        description="what is built; at least one, each with a name of its own",
    )
    release: Release = Field(description="how the result is published")

    @field_validator("geometry", "reference")
    @classmethod
    def _file_ships(cls, name: str | None, info: ValidationInfo) -> str | None:
        names = geometry_names() if info.field_name == "geometry" else reference_names()
        if name is not None and name not in names:
            raise ValueError(f"found {name!r}; accepted: {', '.join(names)}")
        return name

    @field_validator("variants", mode="before")
    @classmethod
    def _list_becomes_tuple(cls, variants: Any) -> tuple[Any, ...]:
        return as_tuple(variants, "a list of variants")

    # Not by min_length: pydantic counts valid items only, and would report a bad one as a missing one too.
    @field_validator("variants")
    @classmethod
    def _names_are_unique(cls, variants: tuple[Variant, ...]) -> tuple[Variant, ...]:
        if not variants:
            raise ValueError("found an empty list; accepted: at least one variant")
        twice = [name for name, count in Counter(v.name for v in variants).items() if count > 1]
        if twice:
            raise ValueError(f"name {twice[0]!r} is given more than once; accepted: each name once")
        return variants

    @model_validator(mode="after")
    def _keys_agree(self) -> Self:
        names = [variant.name for variant in self.variants]
        if self.release.latest not in names:
            raise ValueError(
                f"release.latest: found {self.release.latest!r}; accepted: the name of a variant, "
                f"here {', '.join(names)}"
            )
        if self.geometry is None and not isinstance(self.source, PathSource):
            raise ValueError(
                f"geometry: missing, and source.kind is {self.source.kind!r}; "
                f"accepted: {', '.join(geometry_names())}, or nothing for kind path"
            )
        self._fits(self._geometry())
        return self

    def _geometry(self) -> Geometry:
        try:
            return self.load_geometry()
        except BadInput as error:
            raise ValueError(f"source.path: {error}") from error

    def _fits(self, geometry: Geometry) -> None:
        for index, variant in enumerate(self.variants):
            if accepted := geometry.tp_accepted(variant.tp):
                raise ValueError(
                    f"variants.{index}.tp: found {variant.tp}; accepted: {accepted} of geometry {geometry.name}"
                )
            if variant.kv_max > geometry.max_position_embeddings:
                raise ValueError(
                    f"variants.{index}.kv_max: found {variant.kv_max}; accepted: at most "
                    f"{geometry.max_position_embeddings}, max_position_embeddings of geometry {geometry.name}"
                )

    def load_geometry(self) -> Geometry:
        """The named geometry; for a path source without one, the shape in the folder's config.json.

        Raises BadInput when that file is missing or unusable.
        """
        return load_geometry(self.geometry_source)

    @property
    def geometry_source(self) -> str | Path:
        """Where the shape is written: the name of a shipped geometry, or the folder of a path source."""
        if self.geometry is None and isinstance(self.source, PathSource):
            return Path(self.source.path)
        return str(self.geometry)


class Parity(Strict):
    """How much text a variant is judged on, and what counts as equal."""

    prompts: int = Field(default=64, ge=1, le=10_000, description="prompts per size whose greedy answers are compared")
    max_new: int = Field(
        default=128,
        ge=1,
        le=100_000,
        description="tokens of an answer at most; less than the kv_max of every variant",
    )
    heldout_tokens: int = Field(
        default=2048, ge=2, le=10_000_000, description="tokens of held-out text whose log-probabilities are compared"
    )
    bfloat16_epsilon: float = Field(
        default=0.1,
        ge=0.0,
        description="logits: a bfloat16 graph may choose another token only where the oracle's gap is "
        "smaller; float32 has no exemption",
    )
    float32_logprob_tolerance: float = Field(
        default=1e-3,
        ge=0.0,
        description="nats: how far a held-out log-probability of a float32 graph may be from the oracle's; "
        "those of bfloat16 are only reported",
    )
    seed: int = Field(default=0, ge=0, le=LARGEST_SEED, description="seed of the choice of prompts")


class Bench(Strict):
    """How a variant is timed."""

    prompt_tokens: int = Field(
        default=96, ge=1, description="tokens of the timed prompt; less where a variant holds less"
    )
    new_tokens: int = Field(default=128, ge=1, description="tokens generated after it; less where a variant holds less")
    rounds: int = Field(default=5, ge=1, description="repetitions; the median is reported")


class Factory(Strict):
    """The root of a configuration file."""

    name: Name = Field(description="name of the run: results go to results/<name>")
    store: str = Field(
        default="results/store",
        pattern=r"^[A-Za-z0-9_.:/+@~ -]+$",
        max_length=1000,
        description="the content-addressed store, shared by all runs: a folder, or s3://BUCKET/PREFIX for many "
        "machines; letters, digits, blanks and _ . : / + @ ~ -, as it goes through a shell",
    )
    cache: str = Field(
        default="results/store",
        pattern=r"^[A-Za-z0-9_./+@~ -]+$",
        max_length=1000,
        description="folder of this machine that a store in S3 is read and written through",
    )
    checkpoints: dict[CheckpointName, Checkpoint] = Field(
        json_schema_extra={"minProperties": 1}, description="what is built: checkpoints by name, at least one"
    )
    parity: Parity = Field(default=Parity(), description="the comparison with the oracle")
    bench: Bench = Field(default=Bench(), description="the measurement of speed")
    publish: Publish | None = Field(
        default=None, description="where releases go and who signs them; null: they stay on this machine"
    )
    inf2: Inf2 | None = Field(
        default=None,
        description="machines to rent for parity and bench of target inf2 on a host without NeuronCores; null: none",
    )

    @field_validator("name")
    @classmethod
    def _is_nobody_elses(cls, name: str) -> str:
        if name in SHARED:
            raise ValueError(f"found {name!r}; accepted: another name, as results/{name} is shared by all runs")
        return name

    @field_validator("store")
    @classmethod
    def _is_a_location(cls, store: str) -> str:
        bucket_of(store)
        return store

    @model_validator(mode="after")
    def _answers_fit(self) -> Self:
        for key, checkpoint in self.checkpoints.items():
            for index, variant in enumerate(checkpoint.variants):
                if variant.kv_max <= self.parity.max_new:
                    raise ValueError(
                        f"checkpoints.{key}.variants.{index}.kv_max: found {variant.kv_max}; accepted: more than "
                        f"{self.parity.max_new}, parity.max_new, as an answer follows a prompt"
                    )
        return self

    @model_validator(mode="after")
    def _a_rented_machine_reaches_the_store(self) -> Self:
        if self.inf2 and not self.store.startswith("s3://"):
            raise ValueError(
                f"store: found {self.store!r}; accepted: s3://BUCKET/PREFIX where inf2 is given, as a rented machine "
                "takes the artifact from there"
            )
        return self

    @model_validator(mode="after")
    def _releases_can_be_published(self) -> Self:
        if self.publish and (said := self.publish.refusal(self.checkpoints)):
            raise ValueError(said)
        return self

    @field_validator("checkpoints", mode="before")
    @classmethod
    def _name_from_key(cls, checkpoints: Any) -> Any:
        if not isinstance(checkpoints, dict):
            return checkpoints
        if not checkpoints:
            raise ValueError("found an empty mapping; accepted: at least one checkpoint")
        return {key: _named(key, value) for key, value in checkpoints.items()}


def _named(key: Any, checkpoint: Any) -> Any:
    """The checkpoint's mapping with its key as `name`; anything else is left to the model's own errors."""
    if not isinstance(checkpoint, dict) or not isinstance(key, str):
        return checkpoint
    if checkpoint.get("name", key) != key:
        raise ValueError(f"{key}.name: found {checkpoint['name']!r}; accepted: {key!r}, the key of the map, or nothing")
    return {**checkpoint, "name": key}

"""Machines that are rented for parity and bench: the section `inf2` of a configuration.

It is for a host without NeuronCores. Nothing of it is part of a result's key but the container's digest, which decides
what runs there: the same variant judged in another zone, or under another ceiling, is the same variant.
"""

from typing import Annotated, Any

from pydantic import Field, StringConstraints, field_validator

from config.base import Strict, as_tuple

RegionName = Annotated[str, StringConstraints(pattern=r"^[a-z]{2}(-[a-z]+)+-[0-9]$")]
Zone = Annotated[str, StringConstraints(pattern=r"^[a-z]{2}(-[a-z]+)+-[0-9](-[a-z0-9-]+)?[a-z]$")]
Subnet = Annotated[str, StringConstraints(pattern=r"^subnet-[0-9a-f]+$")]
RUNS = r"^s3://[a-z0-9][a-z0-9.-]{1,61}[a-z0-9](/[A-Za-z0-9][A-Za-z0-9_.=-]*)+$"
"""A folder on S3 for runs, or of one run."""
SecurityGroup = Annotated[str, StringConstraints(pattern=r"^sg-[0-9a-f]+$")]


class Region(Strict):
    """Where in a region a machine may be started."""

    zones: tuple[Zone, ...] = Field(
        default=(), description="availability zones that may be used; none given: all that offer the instance"
    )
    subnets: dict[Zone, Subnet] = Field(
        default={}, description="subnet by zone, such as {us-east-1a: subnet-0ab1}; others take their default subnet"
    )
    security_group: SecurityGroup | None = Field(
        default=None,
        description="security group by id; it needs to let nothing in, and https out; null: the default one",
    )

    @field_validator("zones", mode="before")
    @classmethod
    def _list_becomes_tuple(cls, items: Any) -> tuple[Any, ...]:
        return as_tuple(items, "a list of zones")


class Inf2(Strict):
    """Where machines may be rented, for how much, and what runs on them."""

    runs: str = Field(
        pattern=RUNS,
        # A machine is found again by a tag that holds it, and a tag takes no more.
        max_length=256,
        description="where runs leave their records, such as s3://my-bucket/foundry/runs",
    )
    image: str = Field(
        pattern=r"^[a-z0-9.:-]+(/[a-z0-9._-]+)+@sha256:[0-9a-f]{64}$",
        max_length=500,
        description="the project's container, by digest: the stage `build` of envs/Dockerfile, of the same commit",
    )
    profile: str = Field(
        pattern=r"^[A-Za-z0-9+=,.@_-]{1,128}$",
        description="name of the instance profile: it reads the store and the image, and writes the store and `runs`",
    )
    regions: dict[RegionName, Region] = Field(
        json_schema_extra={"minProperties": 1}, description="regions that may be used, at least one"
    )
    on_demand: bool = Field(
        default=False, description="whether a machine on demand is asked for where no zone has a spot one"
    )
    max_hours: float = Field(
        default=3.0, ge=0.5, le=48.0, description="hours after which a machine shuts itself down, whatever it does"
    )
    ceiling_usd: float = Field(
        default=10.0, gt=0.0, le=10_000.0, description="US dollars that all machines of one run may cost together"
    )
    wait_hours: float = Field(
        default=6.0, ge=0.0, le=168.0, description="hours for which a machine is asked for again while there is none"
    )
    price_margin: float = Field(
        default=1.5,
        ge=1.0,
        le=10.0,
        description="how many times us-east-1's prices a region may take, on demand and for disks, in the ceiling",
    )
    disk_gb: int = Field(default=200, ge=50, le=16_000, description="GB of a machine's disk: container and artifact")
    base_image: str = Field(
        default="/aws/service/neuron/dlami/base/ubuntu-24.04/latest/image_id",
        pattern=r"^/[A-Za-z0-9_./-]+$",
        max_length=500,
        description="SSM parameter that names the machine image: one with the Neuron driver, docker and the AWS CLI",
    )

    # Not by min_length, as for variants: one sentence that says what is accepted.
    @field_validator("regions")
    @classmethod
    def _somewhere(cls, regions: dict[str, Region]) -> dict[str, Region]:
        if not regions:
            raise ValueError("found an empty mapping; accepted: at least one region, such as us-east-1: {}")
        for name, region in regions.items():
            for key, zones in (("zones", region.zones), ("subnets", region.subnets)):
                if foreign := next((zone for zone in zones if not zone.startswith(name)), None):
                    raise ValueError(f"{name}.{key}: found {foreign!r}; accepted: a zone of {name}, such as {name}a")
        return regions

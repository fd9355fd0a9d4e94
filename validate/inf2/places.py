"""Where a machine of one kind may be started now, cheapest first, and from which image."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from typing import TYPE_CHECKING

from config.cloud import Inf2, Region
from ledger.errors import BadInput
from validate.inf2.refusals import AWS_ERRORS, denied, hopeless, name_of, reason, sentence

if TYPE_CHECKING:
    from validate.inf2.clients import Clients

_LINUX = "Linux/UNIX"


@dataclass(frozen=True)
class Place:
    """A zone that offers the kind, and the price of a spot machine there; None when AWS does not tell."""

    region: str
    zone: str
    spot: float | None


class Map:
    """The regions of a configuration."""

    def __init__(self, clients: Clients, cloud: Inf2, kind: str, now: Callable[[], float]) -> None:
        self._clients, self._cloud, self._kind, self._now = clients, cloud, kind, now
        self.image = cache(self._image)
        self.silent: tuple[str, ...] = ()

    def places(self, say: Callable[[str], None]) -> list[Place]:
        """Zones of every allowed region, by price; one that does not answer now is left out, with a word, and `silent`.

        BadInput when credentials are missing or not let in, or what is asked for is wrong.
        """
        found: list[Place] = []
        self.silent = ()
        for name, region in self._cloud.regions.items():
            try:
                found += self._of_region(name, region)
            except AWS_ERRORS as error:
                if hopeless(error):
                    raise sentence(error, f"a list of the zones of {name}") from None
                self.silent += (name,)
                say(f"{name} does not answer ({name_of(error)}), and is left out for now")
        return sorted(found, key=lambda one: (one.spot is None, one.spot, one.zone))

    def _of_region(self, name: str, region: Region) -> Iterator[Place]:
        # Asked for here, as a region that cannot tell it is of no use either.
        self.image(name)
        ec2 = self._clients.ec2(name)
        offered = ec2.describe_instance_type_offerings(
            LocationType="availability-zone", Filters=[{"Name": "instance-type", "Values": [self._kind]}]
        )
        zones = {offer["Location"] for offer in offered["InstanceTypeOfferings"]}
        # From now on: then AWS answers with the price that holds now, of each zone.
        history = ec2.describe_spot_price_history(
            InstanceTypes=[self._kind],  # type: ignore[list-item]  # a name of recipes.fit.instances
            ProductDescriptions=[_LINUX],
            StartTime=datetime.fromtimestamp(self._now(), UTC),
        )
        prices = {one["AvailabilityZone"]: float(one["SpotPrice"]) for one in reversed(history["SpotPriceHistory"])}
        for zone in sorted(zones):
            if not region.zones or zone in region.zones:
                yield Place(name, zone, prices.get(zone))

    def _image(self, region: str) -> tuple[str, str]:
        """Id of the machine image in a region, and the name of its first disk."""
        parameter = self._cloud.base_image
        try:
            found = self._clients.ssm(region).get_parameter(Name=parameter)["Parameter"]["Value"]
            images = self._clients.ec2(region).describe_images(ImageIds=[found])["Images"]
        except AWS_ERRORS as error:
            if denied(error) or not hopeless(error):
                raise
            raise BadInput(
                f"inf2.base_image: {parameter} is not known in {region} ({reason(error)}); accepted: a parameter of "
                "SSM that names a machine image"
            ) from None
        if not images:
            raise BadInput(f"inf2.base_image: {parameter} names {found}, which {region} does not have")
        return found, images[0].get("RootDeviceName", "/dev/sda1")

"""What an instance must have for a variant of target inf2, by the calculation of `recipes.fit`.

Nothing of it is measured: it is scaled from what published builds were seen to take, and the card says so beside it.
"""

from __future__ import annotations

from dataclasses import dataclass

from config.geometry import Geometry
from recipes.fit.hbm import area, hbm_of
from recipes.fit.host import host_of
from recipes.fit.instances import GIB, Instance, cheapest, with_swap
from serve.manifest import Manifest

_CORES_PER_DEVICE = 2


@dataclass(frozen=True)
class Needs:
    """Bytes of host memory at its peak, the cheapest instance that has them, and a smaller one with bytes of swap."""

    host: int
    instance: Instance | None
    swap: tuple[Instance, int] | None


def needs_of(manifest: Manifest, geometry: Geometry) -> Needs:
    """The needs of an artifact for inf2, of a checkpoint of that shape."""
    point = manifest.variant
    signatures = {name: graph.signature for name, graph in manifest.graphs.items()}
    hbm = hbm_of(signatures, geometry.num_hidden_layers, point.kv, point.builder)
    host = host_of(geometry, hbm, max(map(area, signatures.values())), point.tp, point.slim)
    peak = max(host.load, host.serve)
    instance, smaller = cheapest(point.tp, peak), with_swap(point.tp, host.serve, host.load)
    return Needs(peak, instance, smaller if smaller and smaller[1] and smaller[0] != instance else None)


def devices(manifest: Manifest) -> int:
    """Neuron devices that hold a core for each rank: /dev/neuron0 and on."""
    return -(-manifest.variant.tp // _CORES_PER_DEVICE)


def gib(size: int) -> int:
    """Whole GiB that hold `size` bytes."""
    return -(-size // GIB)

"""The inf2 family as data: what one NeuronCore-v2 has, and what each instance type has around it.

Sources: aws-neuron-sdk 81ce03ae, about-neuron/arch/neuron-hardware/inf2-arch.rst, nki/guides/architecture/
trainium_inferentia2_arch.rst and neuron-runtime/explore/device-memory.rst. Prices are on demand for Linux, per hour:
inf2.xlarge as of 2026-10-05 (gemma4-dev), inf2.48xlarge as of 2026-09-01 (AWS price list API), the two between them
as public tables of 2026 round them. They order instances and are no quotation.
"""

from __future__ import annotations

from dataclasses import dataclass

GIB = 1 << 30
CORE_HBM = 16 * GIB
"""Bytes of a core's HBM: half of a chip's 32 GiB."""
CORE_BANDWIDTH = 410 * GIB
"""Bytes per second between a core and its HBM: half of a chip's 820 GiB/s."""
CORE_FLOPS = {"bfloat16": 92e12, "float32": 23e12}
"""Peak of the tensor engine."""
RESERVED = 96_000_000
"""Bytes of each core's HBM that the runtime keeps for microcode."""


@dataclass(frozen=True)
class Instance:
    """One instance type; `usd` is its price per hour."""

    name: str
    cores: int
    vcpu: int
    host_gib: int
    usd: float

    @property
    def host(self) -> int:
        """Bytes of host memory."""
        return self.host_gib * GIB


# Cheapest first.
INSTANCES = (
    Instance("inf2.xlarge", cores=2, vcpu=4, host_gib=16, usd=0.7582),
    Instance("inf2.8xlarge", cores=2, vcpu=32, host_gib=128, usd=1.97),
    Instance("inf2.24xlarge", cores=12, vcpu=96, host_gib=384, usd=6.49),
    Instance("inf2.48xlarge", cores=24, vcpu=192, host_gib=768, usd=12.98127),
)


def cheapest(tp: int, host: int) -> Instance | None:
    """The cheapest instance with a core for each of `tp` ranks and `host` bytes of memory; None when there is none."""
    return next((one for one in INSTANCES if one.cores >= tp and one.host >= host), None)


def with_swap(tp: int, resident: int, peak: int) -> tuple[Instance, int] | None:
    """The cheapest instance that holds `resident` bytes, and the swap in bytes that a `peak` at load needs beside it.

    Published builds of E4B and 26B were served so. None when no instance holds what stays resident.
    """
    instance = cheapest(tp, resident)
    return (instance, max(0, peak - instance.host)) if instance else None

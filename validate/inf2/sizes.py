"""Which machine a variant is judged and timed on: the cheapest that holds what `fit` says, and the bench beside it.

Departs from the plan's instance, on which a variant is served: the bench holds transformers with the same checkpoint at
the same time, so a variant for a host of 16 GiB is measured on a larger one.
"""

from __future__ import annotations

from config.geometry import Geometry
from config.models import Variant
from recipes import memory
from recipes.fit.host import host_of
from recipes.fit.instances import GIB, INSTANCES, Instance, cheapest
from recipes.fit.predict import Predictor
from validate.inf2.failed import RentFailed

_MB = 1_000_000


def size_of(name: str, variant: Variant, geometry: Geometry, predictor: Predictor) -> tuple[Instance, int]:
    """The machine, and the host memory in bytes that it is chosen for; RentFailed when there is none."""
    hbm = predictor.hbm(
        variant.tp, variant.kv_max, variant.kv_bucket, variant.batch, kv=variant.kv, builder=variant.builder
    )
    if not hbm.fits:
        raise RentFailed(f"{name}: takes {hbm.total / GIB:.1f} GiB of a core's memory; no machine of the family has it")
    host = host_of(geometry, hbm, variant.kv_bucket * variant.kv_max, variant.tp, variant.slim)
    beside = max(memory.parity_mb(geometry, variant), memory.bench_mb(geometry, variant)) * _MB
    need = max(host.load, host.serve, beside)
    instance = cheapest(variant.tp, need)
    if instance is None:
        raise RentFailed(
            f"{name}: takes {need / GIB:.0f} GiB of host memory; accepted: at most {INSTANCES[-1].host_gib}, "
            f"that of {INSTANCES[-1].name}"
        )
    return instance, need

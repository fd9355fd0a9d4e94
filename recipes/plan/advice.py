"""Why a variant cannot work, and what would: each reason is one sentence with its remedy."""

from __future__ import annotations

from typing import get_args

from config.models import TensorParallel, Variant
from recipes.fit.hbm import Hbm
from recipes.fit.instances import CORE_HBM, GIB, INSTANCES
from recipes.fit.predict import Predictor
from recipes.plan.row import Row


def reasons(row: Row, predictor: Predictor) -> list[str]:
    """What stands against a variant, most fundamental first; empty when it can work."""
    found = [f"lint {one.code or one.rule}: {one.message}; {one.remedy}" for one in row.errors]
    if not row.hbm.fits:
        found.append(
            f"HBM per core is {row.hbm.total / GIB:.1f} GiB; accepted: at most {CORE_HBM // GIB}; "
            f"{_smaller(row.variant, predictor)}"
        )
    if row.instance is None:
        found.append(_host(row))
    return found


def _host(row: Row) -> str:
    largest, variant = INSTANCES[-1], row.variant
    peak = max(row.host.load, row.host.serve)
    remedy = "nothing smaller is known" if variant.slim else "slim: true would leave the model out of it"
    return (
        f"host memory is {peak / GIB:.0f} GiB; accepted: at most {largest.host_gib}, that of {largest.name}; {remedy}"
    )


def _smaller(variant: Variant, predictor: Predictor) -> str:
    """The changes of one key, each by the least step, after which a core holds the variant."""
    keys = {"tp": variant.tp, "kv_max": variant.kv_max, "kv_bucket": variant.kv_bucket, "batch": variant.batch}
    found = []
    for key, values in _candidates(variant, predictor).items():
        for value in values:
            hbm = _hbm(predictor, keys | {key: value}, variant)
            if hbm.fits:
                found.append(f"{key}: {value} ({hbm.total / GIB:.1f} GiB)")
                break
    if not found:
        return "no tp, kv_max, kv_bucket or batch alone would do"
    return f"what would work: {' or '.join(found)}"


def _candidates(variant: Variant, predictor: Predictor) -> dict[str, list[int]]:
    degrees = [tp for tp in get_args(TensorParallel) if tp > variant.tp and not predictor.geometry.tp_accepted(tp)]
    return {
        "tp": degrees,
        "kv_max": _halves(variant.kv_max, 128),
        "kv_bucket": _halves(variant.kv_bucket, 32),
        "batch": _halves(variant.batch, 1),
    }


def _halves(value: int, least: int) -> list[int]:
    found = []
    while (value := value // 2) >= least:
        found.append(value)
    return found


def _hbm(predictor: Predictor, keys: dict[str, int], variant: Variant) -> Hbm:
    bucket = min(keys["kv_bucket"], keys["kv_max"])
    return predictor.hbm(keys["tp"], keys["kv_max"], bucket, keys["batch"], variant.kv, variant.builder)

"""Which part of the Neuron SDK builds a variant, what each accepts, and what is taken where nothing is said.

xla        target cpu: the lowered module itself, through XLA:CPU
trace      torch_neuronx.trace: one core, weights inside the graphs
nxd        neuronx_distributed's ModelBuilder: one program for all ranks, weights beside it
parallel   parallel_model_trace: one program per rank, weights inside each
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

Builder = Literal["xla", "trace", "nxd", "parallel"]


@dataclass(frozen=True)
class Default:
    """The builder of a variant that names none, and why it is this one."""

    builder: Builder
    reason: str


_CPU = Default("xla", "XLA:CPU compiles the lowered module as it is")
DEFAULTS: dict[tuple[str, str], Default] = {
    ("cpu", "device"): _CPU,
    ("cpu", "host"): _CPU,
    ("inf2", "host"): Default(
        "trace", "two traced graphs with the cache as inputs and outputs: what published builds have proved on one core"
    ),
    ("inf2", "device"): Default(
        "nxd",
        "ModelBuilder gives both graphs one cache and one set of weights, and is known to build without a device; two "
        "traced graphs would each have a cache of their own",
    ),
}
_CHOSEN: dict[Builder, str] = {
    "xla": _CPU.reason,
    "trace": "chosen: a cache on the device in a traced graph is private to it, so one graph serves prefill and decode",
    "nxd": DEFAULTS["inf2", "device"].reason,
    "parallel": "chosen: the form of published two-core builds; it compiles every rank, and AWS has ended its support",
}


def reason_of(builder: Builder, target: str, kv: str) -> str:
    """Why a variant is built so, for its receipt."""
    default = DEFAULTS[target, kv]
    return default.reason if default.builder == builder else _CHOSEN[builder]


def inlines_weights(builder: Builder) -> bool:
    """Whether the graphs hold the weights, so that no weight file goes along."""
    return builder in ("trace", "parallel")


def one_graph(builder: Builder, kv: str) -> bool:
    """Whether one graph of width kv_bucket serves decode too: the cache on the device belongs to one graph alone."""
    return builder == "parallel" or (builder == "trace" and kv == "device")


def refusal(builder: Builder, *, target: str, kv: str, tp: int, batch: int, kv_bucket: int) -> str | None:
    """What speaks against the combination, as `key: found ...; accepted: ...`; None when nothing does."""
    accepted = [name for name in get_args(Builder) if (name == "xla") == (target == "cpu")]
    if builder not in accepted:
        return f"builder: found {builder!r}; accepted: {', '.join(map(repr, accepted))} for target {target}"
    by = f"builder {builder}"
    if builder == DEFAULTS[target, kv].builder:
        by += f", the default for kv {kv}"
    rules = (
        (builder == "trace" and tp != 1, f"tp: found {tp}; accepted: 1 with {by}, as a traced graph runs on one core"),
        (
            builder in ("nxd", "parallel") and kv != "device",
            f"kv: found {kv!r}; accepted: 'device' with {by}, as each rank keeps its state on its core",
        ),
        (
            one_graph(builder, kv) and batch != 1,
            f"batch: found {batch}; accepted: 1 with {by} and kv {kv}, as one graph serves prefill and decode",
        ),
        (
            builder == "nxd" and kv_bucket == 1,
            f"kv_bucket: found 1; accepted: 2 or more with {by}, which tells its graphs apart by their shapes",
        ),
    )
    return next((said for broken, said in rules if broken), None)

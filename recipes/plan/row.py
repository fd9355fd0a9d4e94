"""One variant of the plan: its verdict, what it takes, how fast it may be, and the instance for it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from config.builders import one_graph
from config.geometry import Geometry
from config.models import Variant
from recipes.fit.cost import Cost, cost_of
from recipes.fit.hbm import Hbm, area, hbm_of
from recipes.fit.host import Host, host_of, table_bytes
from recipes.fit.instances import Instance, cheapest, with_swap
from recipes.fit.law import Step, step_of
from recipes.lint.finding import SEVERITIES, Finding
from recipes.plan.graphs import Graph
from serve.manifest import GraphName

TOKENIZER = 32_200_000
"""Bytes of tokenizer.json, its configuration, and the chat template of every Gemma 4 checkpoint."""


@dataclass(frozen=True)
class Row:
    """The plan of one variant; sizes in bytes, `artifact` being weights of all ranks, tables, tokenizer and graphs."""

    checkpoint: str
    variant: Variant
    findings: tuple[Finding, ...]
    hbm: Hbm
    host: Host
    decode: Cost
    prefill: Cost
    step: Step
    artifact: int
    instance: Instance | None
    swap: tuple[Instance, int] | None

    @property
    def name(self) -> str:
        """CHECKPOINT/VARIANT."""
        return f"{self.checkpoint}/{self.variant.name}"

    @property
    def errors(self) -> list[Finding]:
        """What the compiler would refuse."""
        return [one for one in self.findings if one.severity == "error"]

    def counts(self) -> dict[str, int]:
        """How many findings there are of each severity, in both graphs."""
        return {one: sum(f.count for f in self.findings if f.severity == one) for one in SEVERITIES}

    @property
    def floor_tok_s(self) -> float:
        """Tokens per second of all streams if a step took no longer than its floor."""
        return 1e3 * self.variant.batch / self.decode.floor_ms

    def as_json(self) -> dict[str, Any]:
        """The row for machines."""
        return {
            "checkpoint": self.checkpoint,
            **self.variant.model_dump(mode="json", exclude={"name", "target"}),
            "variant": self.variant.name,
            "lint": self.counts(),
            "hbm": asdict(self.hbm) | {"total": self.hbm.total, "fits": self.hbm.fits},
            "host": asdict(self.host),
            "decode": asdict(self.decode)
            | {
                "floor_ms": self.decode.floor_ms,
                "floor_tok_s": self.floor_tok_s,
                "expected_ms": self.step.expected_ms,
                "expected_tok_s": self.step.expected_tok_s,
            },
            "prefill": asdict(self.prefill) | {"floor_ms": self.prefill.floor_ms},
            "artifact_mb": round(self.artifact / 1e6),
            "instance": self.instance and self.instance.name,
            "usd_per_hour": self.instance and self.instance.usd,
            "with_swap": self.swap and {"instance": self.swap[0].name, "swap": self.swap[1]},
        }


def row_of(checkpoint: str, geometry: Geometry, variant: Variant, graphs: Mapping[GraphName, Graph]) -> Row:
    """The row of a variant from its two graphs."""
    signatures = {name: graph.signature for name, graph in graphs.items()}
    hbm = hbm_of(signatures, geometry.num_hidden_layers, variant.kv, variant.builder)
    step: GraphName = "prefill" if one_graph(variant.builder, variant.kv) else "decode"
    host = host_of(geometry, hbm, max(map(area, signatures.values())), variant.tp, variant.slim)
    costs = {name: cost_of(graph.signature, graph.flops, variant.dtype) for name, graph in graphs.items()}
    instance = cheapest(variant.tp, max(host.load, host.serve))
    smaller = with_swap(variant.tp, host.serve, host.load)
    return Row(
        checkpoint=checkpoint,
        variant=variant,
        findings=tuple(one for graph in graphs.values() for one in graph.findings),
        hbm=hbm,
        host=host,
        decode=costs[step],
        prefill=costs["prefill"],
        step=step_of(signatures[step], geometry, variant.tp, variant.kv),
        artifact=hbm.copies * hbm.weights * variant.tp + table_bytes(geometry) + TOKENIZER + hbm.code,
        instance=instance,
        swap=smaller if smaller and smaller[1] and smaller[0] != instance else None,
    )

"""PartitionerConfig (section 2.3): accepted and kept; the stand-in never moves an operator to the CPU."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any


@dataclass(kw_only=True)
class PartitionerConfig:
    """The documented fields with their defaults."""

    trace_kwargs: dict[str, Any] | None = None
    model_support_percentage_threshold: float = 0.5
    min_subgraph_size: int = -1
    max_subgraph_count: int = -1
    ops_to_partition: Collection[str] | None = None
    analyze_parameters: dict[str, Any] | None = None

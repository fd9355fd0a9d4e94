"""torch_neuronx.xla_impl: the private functions NxD calls (section 2.4)."""

from __future__ import annotations

from torch_neuronx.xla_impl import compilation, trace

__all__ = ["compilation", "trace"]

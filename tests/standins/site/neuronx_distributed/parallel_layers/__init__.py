"""Stand-in for neuronx_distributed.parallel_layers; SDK document, section 3.5."""

from . import layers, mappings, parallel_state

__all__ = ["layers", "mappings", "parallel_state"]

"""Stand-in for neuronx_distributed.trace.nxd_model; SDK document, section 3.4."""

from .nxd_model import NxDModel

__all__ = ["NxDModel"]

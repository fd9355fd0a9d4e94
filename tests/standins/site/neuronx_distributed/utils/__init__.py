"""Stand-in for neuronx_distributed.utils; SDK document, section 3.3."""

from . import model_utils

__all__ = ["model_utils"]

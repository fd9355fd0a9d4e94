"""torch_neuronx.utils (section 2.5)."""

from __future__ import annotations

from torch_neuronx.utils.utils import SUPPORTED_TYPES, get_platform_target

__all__ = ["SUPPORTED_TYPES", "get_platform_target"]

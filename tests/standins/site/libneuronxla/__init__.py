"""Stand-in of libneuronxla 2.2.15515.0: compiling through the persistent cache (sections 2.6 and 3.3)."""

from __future__ import annotations

from neuron_standin import versions

from libneuronxla.compilation import neuron_xla_compile, neuron_xla_wlo_compile

__version__ = versions.LIBNEURONXLA
__all__ = ["neuron_xla_compile", "neuron_xla_wlo_compile"]

"""Stand-in of torch_neuronx 2.8.0.2.12.22436 (sections 2.1 to 2.5): same names, same traps, graphs run on XLA:CPU.

Importing it registers the operators that a saved model calls, and needs `libneuronpjrt-path` on PATH.
"""

from __future__ import annotations

from neuron_standin import versions

from torch_neuronx import contexts, experimental, host, loading, utils, xla_impl
from torch_neuronx.companions import async_load, dynamic_batch, lazy_load, move_trace_to_device, replace_weights
from torch_neuronx.partitioner import PartitionerConfig
from torch_neuronx.xla_impl.trace import trace

__version__ = versions.TORCH_NEURONX
__all__ = [
    "PartitionerConfig",
    "async_load",
    "contexts",
    "dynamic_batch",
    "experimental",
    "host",
    "lazy_load",
    "loading",
    "move_trace_to_device",
    "replace_weights",
    "trace",
    "utils",
    "xla_impl",
]

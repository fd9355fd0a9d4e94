"""Stand-in for the used part of neuronx_distributed 0.17.26814; SDK document, section 3.

As in the SDK, importing the package imports its pipeline, and so `transformers.utils.fx` where transformers is there.
"""

from . import parallel_layers, pipeline, trace, utils
from .trace.functions import shard_checkpoint
from .trace.model_builder_v2 import ModelBuilder
from .trace.nxd_model import NxDModel
from .trace.parallel_context import NxDParallelState

__version__ = "0.17.26814+standin"
__all__ = [
    "ModelBuilder",
    "NxDModel",
    "NxDParallelState",
    "parallel_layers",
    "pipeline",
    "shard_checkpoint",
    "trace",
    "utils",
]

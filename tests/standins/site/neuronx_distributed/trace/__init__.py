"""Stand-in for neuronx_distributed.trace; SDK document, sections 3.1 to 3.4."""

from .trace import ParallelModel, parallel_model_load, parallel_model_save, parallel_model_trace

__all__ = ["ParallelModel", "parallel_model_load", "parallel_model_save", "parallel_model_trace"]

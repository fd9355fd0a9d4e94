"""Builder parallel: `parallel_model_trace`, one program per rank with its own weights inside.

The SDK starts one process per rank and calls `rank_module` in each; what it is given must survive being pickled.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

from recipes.neuron.filling import fill
from recipes.neuron.job import BuildJob, Built
from recipes.neuron.module import StepModule


def rank_module(job_file: Path) -> tuple[StepModule, dict[Any, int]]:
    """The module of the rank that this process is, with its weights, and its aliases."""
    from neuronx_distributed.parallel_layers import parallel_state

    job = BuildJob.read(job_file)
    (graph,) = job.signatures
    module = job.module(graph)
    fill(module, job.weights[parallel_state.get_tensor_model_parallel_rank()])
    return module, module.aliases()


def build(job: BuildJob, job_file: Path) -> Built:
    """Trace every rank and save them side by side."""
    import torch_neuronx  # noqa: F401
    from neuronx_distributed.trace import parallel_model_save, parallel_model_trace

    (graph,) = job.signatures
    model = parallel_model_trace(
        partial(rank_module, job_file),
        job.example(graph),
        compiler_workdir=str(job.work / "parallel"),
        compiler_args=job.flags,
        inline_weights_to_neff=True,
        tp_degree=job.tp,
    )
    parallel_model_save(model, str(job.out / graph))
    return Built(modules={graph: tuple(f"{graph}/tp_{rank}.pt" for rank in range(job.tp))})

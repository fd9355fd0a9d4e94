"""Builder trace: `torch_neuronx.trace`, one core, weights inside each graph.

With the cache on the host each graph takes the states as inputs and returns them. With the cache on the device the
graph owns them as aliased parameters, which is why there is one graph only. The build host has no device: `cpu_backend`
traces without one, and takes the target from the flags.
"""

from __future__ import annotations

from recipes.neuron.filling import fill
from recipes.neuron.job import BuildJob, Built
from serve.manifest import GraphName


def build(job: BuildJob) -> Built:
    """Trace and save every graph of the job."""
    return Built(modules={graph: (_traced(job, graph),) for graph in job.signatures})


def _traced(job: BuildJob, graph: GraphName) -> str:
    import torch
    import torch_neuronx

    module = job.module(graph)
    fill(module, job.weights[0])
    traced = torch_neuronx.trace(
        module,
        job.example(graph),
        input_output_aliases=module.aliases(),
        compiler_workdir=str(job.work / "trace" / graph),
        compiler_args=job.flags,
        inline_weights_to_neff=True,
        cpu_backend=True,
    )
    name = f"{graph}.pt"
    torch.jit.save(traced, str(job.out / name))  # type: ignore[no-untyped-call]
    return name

"""Builder nxd: neuronx_distributed's ModelBuilder (V1), one program per graph for all ranks, weights beside it.

Both graphs go into one file and share weights and states by name at load. No graph is given priority, so the compiler
proposes no layout of its own for the weights, and the stored files fit as they are. Values of parameters play no part:
weights are arguments, and states start at zero.
"""

from __future__ import annotations

from typing import Any

from recipes.neuron.filling import fill_empty
from recipes.neuron.job import BuildJob, Built
from recipes.neuron.module import StepModule
from serve.manifest import GraphName

FILE = "model.pt"


def build(job: BuildJob) -> Built:
    """Trace both graphs, compile them and save the model without weights."""
    # torch_neuronx first: it registers the device that the other package asks for.
    import torch
    import torch_neuronx  # noqa: F401
    from neuronx_distributed.trace.model_builder import BaseModelInstance, ModelBuilder

    class Instance(BaseModelInstance):
        """Makes its module when it is asked to, so that two are never held, and names the states of that very one."""

        def __init__(self, graph: GraphName) -> None:
            super().__init__(module_cls=lambda: job.module(graph), input_output_aliases={})
            self.graph = graph

        def load_module(self) -> None:
            self.made = job.module(self.graph)
            fill_empty(self.made)
            self.module = self.made

        def get(self, bucket_rank: int, **_: Any) -> tuple[StepModule, dict[Any, int]]:
            return self.made, self.made.aliases()

    builder = ModelBuilder(
        router=None,
        tp_degree=job.tp,
        # Weights are given at load: no checkpoint is read here.
        checkpoint_loader=dict,
        compiler_workdir=str(job.work / "nxd"),
    )
    for graph in job.signatures:
        builder.add(graph, Instance(graph), [job.example(graph)], compiler_args=job.flags)
    model = builder.trace(initialize_model_weights=False)
    torch.jit.save(model, str(job.out / FILE))  # type: ignore[no-untyped-call]
    return Built(
        modules=dict.fromkeys(job.signatures, (FILE,)),
        weight_keys=job.module(next(iter(job.signatures))).weight_keys,
    )

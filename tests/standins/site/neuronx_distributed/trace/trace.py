"""Stand-in for trace.trace; SDK document, sections 3.1 and 3.6: one graph per rank, weights inlined, ranks spawned.

Where it bites: every rank is a spawned process that imports the caller's main module and unpickles these functions;
a folder with anything but tp_N.pt in it cannot be loaded; the first forward replaces the states; the other ranks'
results are lost. Open in the document: whether tracing needs a device. STANDIN_PARALLEL_TRACE=works|needs-device.
"""

# mypy: disallow-untyped-calls=False
from __future__ import annotations

import logging
import os
import pickle
import tempfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, as_completed
from multiprocessing.synchronize import Semaphore
from pathlib import Path
from typing import Any

import torch
import torch_neuronx
from neuron_standin import ops, options, runtime
from torch import Tensor, nn
from torch.multiprocessing.spawn import spawn
from torch_neuronx.model import create_neuron_model, only_model
from torch_neuronx.xla_impl.trace import compile_model

from neuronx_distributed.parallel_layers import parallel_state
from neuronx_distributed.trace.meeting import Meeting
from neuronx_distributed.trace.mock_torchdist import mock_distributed

logger = logging.getLogger("Neuron")


class ParallelModel(nn.Module):
    """A model of several ranks."""


class TensorParallelNeuronModel(ParallelModel):
    """One traced model per rank, loaded to cores 0.. at the first forward."""

    def __init__(self, models: list[torch.jit.ScriptModule]) -> None:
        super().__init__()
        self.models = nn.ModuleList(models)
        self.load, self.tp_degree = False, len(models)
        self.executor: ThreadPoolExecutor | None = None

    def _load(self) -> None:
        self.executor = ThreadPoolExecutor(max_workers=self.tp_degree)
        group = Meeting(self.tp_degree)
        for rank, model in enumerate(self.models):
            if self.tp_degree > 1:
                ops.join(only_model(model).neff, group, rank)
            torch_neuronx.move_trace_to_device(model, rank)
        self.load = True

    def forward(self, *tensors: Tensor) -> Any:
        """The result of the rank that is done first."""
        if not self.load:
            self._load()
        if self.executor is None:
            raise RuntimeError("executor is None although it has to be properly initialized")
        futures = [self.executor.submit(model, *tensors) for model in self.models]
        return [future.result() for future in as_completed(futures)][0]  # noqa: RUF015 - every rank must have run

    def __del__(self) -> None:
        if self.executor:
            self.executor.shutdown()


def parallel_model_trace(
    func: Callable[[], Any],
    example_inputs: Any,
    states: Any = None,
    compiler_workdir: str | Path | None = None,
    compiler_args: str | list[str] | None = None,
    inline_weights_to_neff: bool = True,
    bucket_config: Any = None,
    tp_degree: int = 1,
    max_parallel_compilations: int | None = None,
    spmd_mode: bool = False,
    checkpoint_loader_callable: Callable[[], Any] | None = None,
    force_custom_init_on_device: bool = False,
    serialization_path: str | None = None,
) -> ParallelModel:
    """Call `func`, which returns (module, aliases), in a process per rank, and compile what it made there."""
    _refuse(inline_weights_to_neff, bucket_config, spmd_mode, checkpoint_loader_callable, serialization_path)
    if options.choice("STANDIN_PARALLEL_TRACE", ("works", "needs-device")) == "needs-device":
        runtime.init()
    logger.warning("Using non SPMD mode: every rank is compiled; large models can run out of memory")
    workdir = Path(compiler_workdir or "/tmp/trace_compiler_workdir/")
    turns = torch.multiprocessing.get_context("spawn").Semaphore(max_parallel_compilations or tp_degree)
    with tempfile.TemporaryDirectory() as folder:
        arguments = (func, example_inputs, workdir, compiler_args, inline_weights_to_neff, tp_degree, turns, folder)
        spawn(_trace, args=arguments, nprocs=tp_degree)
        compiled = [pickle.loads(Path(folder, str(rank)).read_bytes()) for rank in range(tp_degree)]
    return TensorParallelNeuronModel([create_neuron_model(one, example_inputs) for one in compiled])


def parallel_model_save(model: ParallelModel, save_dir: str) -> None:
    """Write tp_{rank}.pt for every rank."""
    Path(save_dir).mkdir(parents=True, exist_ok=True)
    assert isinstance(model, TensorParallelNeuronModel)
    for rank, one in enumerate(model.models):
        torch.jit.save(one, f"{save_dir}/tp_{rank}.pt")


def parallel_model_load(model_dir: str) -> ParallelModel:
    """Read every file of the folder, in the order of the rank in its name; nothing is on a core yet."""
    files = sorted(Path(model_dir).iterdir(), key=lambda file: int(file.name.replace(".pt", "").replace("tp_", "")))
    with torch_neuronx.contexts.disable_nrt_load():
        return TensorParallelNeuronModel([torch.jit.load(file) for file in files])


def _trace(
    rank: int,
    func: Callable[[], Any],
    example_inputs: Any,
    workdir: Path,
    compiler_args: str | list[str] | None,
    inline: bool,
    tp_degree: int,
    turns: Semaphore,
    folder: str,
) -> None:
    """One rank's process."""
    os.environ["RANK"] = str(rank)
    with mock_distributed(tp_degree, rank):
        parallel_state.initialize_model_parallel(tensor_model_parallel_size=tp_degree)
        with turns:
            module, aliases = func()
            compiled = compile_model(
                module, example_inputs, aliases, workdir / f"_tp{rank}", compiler_args, inline, cpu_backend=True
            )
    Path(folder, str(rank)).write_bytes(pickle.dumps(compiled))


def _refuse(inline: bool, buckets: Any, spmd: bool, loader: Any, serialization_path: str | None) -> None:
    """ValueError for the combinations the SDK refuses; NotImplementedError for what is not stood in for."""
    if buckets is not None and inline:
        raise ValueError("Bucketing is not supported when inline_weights_to_neff=True.")
    if spmd and inline:
        raise ValueError("Spmd mode is not supported when inline_weights_to_neff=True.")
    if spmd and loader is None:
        raise ValueError("Argument checkpoint_loader_callable not provided.")
    if not spmd and serialization_path is not None:
        raise ValueError("Currently serializing traced model during tracing is only supported for SPMD mode.")
    if buckets is not None or spmd:
        raise NotImplementedError("stand-in: buckets and SPMD mode of parallel_model_trace are not stood in for")

"""Stand-in for trace.model_builder; SDK document, sections 3.2 and 3.3: ModelBuilder V1, everything in one process.

Where it bites: rank 0 is traced for all ranks; buffers are constants of the graph; the work directory, by default
/tmp/nxd_model/, is emptied first; the checkpoint is loaded on the "meta" device; the first graph's output structure
and the last graph's number of inputs hold for all.
"""

from __future__ import annotations

import os
import shutil
import warnings
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from torch_neuronx.xla_impl.trace import (
    HloArtifacts,
    generate_hlo,
    get_compile_command,
    save_compile_command,
    setup_compiler_dirs,
)

from neuronx_distributed.parallel_layers import parallel_state
from neuronx_distributed.trace.assemble import Graph, assemble
from neuronx_distributed.trace.compiling import append_default_compiler_flags, compile_graph
from neuronx_distributed.trace.mock_torchdist import mock_distributed
from neuronx_distributed.trace.sharding import Checkpoint, cast_weights, get_sharded_checkpoint, preprocess_checkpoint
from neuronx_distributed.utils.model_utils import init_on_device


class BaseModelInstance:
    """What makes a module, and the aliases of its states."""

    def __init__(self, module_cls: Callable[[], nn.Module], input_output_aliases: Mapping[nn.Parameter, int]) -> None:
        self.module_cls = module_cls
        self.module: nn.Module | None = None
        self.input_output_aliases = [input_output_aliases]

    def load_module(self) -> None:
        """Make the module."""
        self.module = self.module_cls()

    def get(self, bucket_rank: int, **kwargs: Any) -> tuple[Any, Mapping[nn.Parameter, int]]:
        """The module and its aliases for a bucket."""
        return self.module, self.input_output_aliases[0]


@dataclass
class ModelContainer:
    """What `add` was given under one key, and its lowered buckets."""

    model_instance: BaseModelInstance
    example_inputs: list[tuple[Tensor, ...]]
    compiler_args: str
    priority_model_idx: int | None
    artifacts: list[HloArtifacts] = field(default_factory=list)


class ModelBuilder:
    """Several graphs over one set of weights; see section 3.3 for the arguments."""

    def __init__(
        self,
        router: Any,
        tp_degree: int,
        checkpoint_loader: Callable[[], Checkpoint],
        start_rank_id: int = 0,
        pp_degree: int = 1,
        ep_degree: int = 1,
        local_ranks_size: int | None = None,
        world_size: int | None = None,
        compiler_workdir: str | None = None,
        master_proc_env_vars: dict[str, str] | None = None,
        debug: bool = False,
        num_cores_per_group: int = 1,
        init_custom_process_group_fn: Callable[[], None] | None = None,
        logical_nc_config: int = 1,
        weights_to_skip_layout_optimization: set[str] = set(),  # noqa: B006 - the documented default
        compiler_flag_hook: Any = None,
    ) -> None:
        if world_size is not None and local_ranks_size is None:
            raise ValueError(
                "`world_size` is specified, but `local_ranks_size` is None. Cannot determine local_ranks_size."
            )
        self.router, self.tp_degree, self.pp_degree, self.ep_degree = router, tp_degree, pp_degree, ep_degree
        self.world_size = world_size or tp_degree * pp_degree * ep_degree
        self.local_ranks_size = local_ranks_size or self.world_size
        self.start_rank_id, self.checkpoint_loader = start_rank_id, checkpoint_loader
        self.compiler_workdir = compiler_workdir or "/tmp/nxd_model/"
        self.master_proc_env_vars, self.logical_nc_config = master_proc_env_vars, logical_nc_config
        self.init_custom_process_group_fn = init_custom_process_group_fn
        self.model_collection: dict[str, ModelContainer] = {}

    def add(
        self,
        key: str,
        model_instance: BaseModelInstance,
        example_inputs: list[tuple[Tensor, ...]],
        compiler_args: str | None = None,
        bucket_config: Any = None,
        priority_model_idx: int | None = None,
    ) -> ModelBuilder:
        """Add a graph per tuple of `example_inputs` under `key`."""
        message = "'bucket_config' will be deprecated in a future release."
        warnings.warn(message, category=DeprecationWarning, stacklevel=2)
        if bucket_config is not None:
            raise NotImplementedError("stand-in: bucket_config is not stood in for")
        if not isinstance(example_inputs, list) or not all(isinstance(one, tuple) for one in example_inputs):
            raise TypeError("example_inputs is a list of tuples of tensors, one per bucket")
        flags = append_default_compiler_flags(compiler_args)
        self.model_collection[key] = ModelContainer(model_instance, example_inputs, flags, priority_model_idx)
        return self

    def trace(
        self, initialize_model_weights: bool = True, dry_run: bool = False, disable_fail_fast: bool = False
    ) -> Any:
        """Lower and compile every graph; the model, on the device when `initialize_model_weights`, else on none.

        With `dry_run`: HLO and command.txt are written, nothing is compiled, None is returned.
        """
        os.environ.update(self.master_proc_env_vars or {})
        if Path(self.compiler_workdir).exists():
            shutil.rmtree(self.compiler_workdir)
        with mock_distributed(self.world_size):
            self._enter_parallel_state()
            parallel_state.set_aot_mode(True)
            try:
                for container in self.model_collection.values():
                    self._generate_hlo(container)
            finally:
                parallel_state.set_aot_mode(False)
                parallel_state.destroy_model_parallel()
        if dry_run:
            return self._write_commands()
        model = assemble(self._compile(), self.start_rank_id, self.local_ranks_size)
        if initialize_model_weights:
            self._initialize(model)
        return model

    def shard_checkpoint(self, serialize_path: str | None = None) -> list[Checkpoint]:
        """Every local rank's weights, also as tp{rank}_sharded_checkpoint.safetensors in `serialize_path`."""
        instance = next(iter(self.model_collection.values())).model_instance
        ranks = range(self.start_rank_id, self.start_rank_id + self.local_ranks_size)
        with mock_distributed(self.world_size), init_on_device(torch.device("meta"), force_custom_init_on_device=True):
            self._enter_parallel_state()
            try:
                instance.load_module()
                module, _ = instance.get(0)
                checkpoint = self.checkpoint_loader()
                preprocess_checkpoint(module, checkpoint)
                cast_weights(checkpoint, module)
                sharded = [dict(checkpoint) for _ in ranks]
                for rank, values in zip(ranks, sharded, strict=True):
                    get_sharded_checkpoint(values, module, rank, self.tp_degree, is_cached=True)
            finally:
                parallel_state.destroy_model_parallel()
        if serialize_path is not None:
            Path(serialize_path).mkdir(parents=True, exist_ok=True)
            for rank, values in zip(ranks, sharded, strict=True):
                file = Path(serialize_path) / f"tp{rank}_sharded_checkpoint.safetensors"
                save_file({name: one.contiguous() for name, one in values.items()}, file)
        return sharded

    def _enter_parallel_state(self) -> None:
        torch.distributed.init_process_group(backend="xla", rank=0, world_size=self.world_size)
        parallel_state.initialize_model_parallel(
            tensor_model_parallel_size=self.tp_degree,
            pipeline_model_parallel_size=self.pp_degree,
            expert_model_parallel_size=self.ep_degree,
            skip_collective_init=True,
            lnc_size=self.logical_nc_config,
        )
        if self.init_custom_process_group_fn:
            self.init_custom_process_group_fn()

    def _generate_hlo(self, container: ModelContainer) -> None:
        container.model_instance.load_module()
        container.artifacts = []
        for bucket, inputs in enumerate(container.example_inputs):
            module, aliases = container.model_instance.get(bucket)
            made = generate_hlo(
                module,
                inputs,
                aliases,
                inline_weights_to_neff=False,
                return_weights=False,
                output_aliased_tensor=False,
                cpu_backend=True,
                preserve_parameters=len(container.example_inputs) > 1,
            )
            container.artifacts.append(made)

    def _graphs(self) -> list[tuple[str, int, ModelContainer, Path]]:
        """Key, bucket, container and folder of every graph, in the order of `add`."""
        root = Path(self.compiler_workdir)
        return [
            (key, bucket, container, root / key / f"_tp0_bk{bucket}")
            for key, container in self.model_collection.items()
            for bucket in range(len(container.artifacts))
        ]

    def _write_commands(self) -> None:
        for _, bucket, container, folder in self._graphs():
            model = setup_compiler_dirs(container.artifacts[bucket].hlo_module.SerializeToString(), folder, {})
            save_compile_command(get_compile_command(model, folder, container.compiler_args), folder)

    def _compile(self) -> list[Graph]:
        """Every graph compiled, all at once."""
        with ThreadPoolExecutor() as pool:
            jobs = [
                pool.submit(
                    compile_graph,
                    container.artifacts[bucket].hlo_module.SerializeToString(),
                    container.artifacts[bucket].metaneff,
                    container.compiler_args,
                    folder,
                    container.priority_model_idx == bucket,
                )
                for _, bucket, container, folder in self._graphs()
            ]
            neffs = [job.result() for job in jobs]
        return [
            Graph(key, bucket, container.example_inputs[bucket], container.artifacts[bucket], neff)
            for (key, bucket, container, _), neff in zip(self._graphs(), neffs, strict=True)
        ]

    def _initialize(self, model: Any) -> None:
        if self.local_ranks_size < self.world_size:
            raise RuntimeError("initialize_model_weights argument must be False when tracing for multi-node")
        self.shard_checkpoint(self.compiler_workdir)
        ranks = range(self.start_rank_id, self.start_rank_id + self.local_ranks_size)
        files = [Path(self.compiler_workdir) / f"tp{rank}_sharded_checkpoint.safetensors" for rank in ranks]
        weights = [load_file(file) for file in files]
        model.nxd_model.initialize(weights, torch.tensor([self.start_rank_id], dtype=torch.int32))

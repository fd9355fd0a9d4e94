"""Stand-in for trace.model_builder_v2; SDK document, section 3.4: graphs by tag, compiled to an NxDModel."""

from __future__ import annotations

import hashlib
from pathlib import Path

import torch
from torch import Tensor, nn

from neuronx_distributed.trace.functions import TraceArtifacts, compile, trace  # noqa: A004 - the SDK's name
from neuronx_distributed.trace.nxd_model import NxDModel


class ModelBuilder:
    """Traces one module at several input shapes; made inside an NxDParallelState."""

    def __init__(self, model: nn.Module, weights_to_skip_layout_optimization: set[str] | None = None) -> None:
        self.model = model
        self.trace_artifacts_collection: dict[str, TraceArtifacts] = {}
        self.world_size = torch.distributed.get_world_size() if torch.distributed.is_initialized() else 1

    def trace(
        self,
        args: Tensor | tuple[Tensor, ...] | None = None,
        kwargs: dict[str, Tensor] | None = None,
        tag: str | None = None,
        spmd: bool = True,
    ) -> ModelBuilder:
        """Lower the module for these inputs."""
        artifacts = trace(self.model, args, kwargs, spmd)
        key = tag or f"model_{hashlib.sha256(artifacts.hlo).hexdigest()[:20]}"
        self.trace_artifacts_collection[key] = artifacts
        return self

    def compile(
        self,
        priority_model_key: str | None = None,
        compiler_workdir: str | Path | None = None,
        compiler_args: str | dict[str, str] | None = None,
        max_workers: int | None = None,
    ) -> NxDModel:
        """Compile every graph; ValueError without any, RuntimeError when the compiler fails."""
        if not self.trace_artifacts_collection:
            raise ValueError("No traces available for compilation. Call trace() first.")
        if priority_model_key is not None:
            raise NotImplementedError("stand-in: weight layout optimisation is not stood in for")
        made = NxDModel(self.world_size)
        for key, artifacts in self.trace_artifacts_collection.items():
            flags = compiler_args[key] if isinstance(compiler_args, dict) else compiler_args
            try:
                compiled = compile(artifacts.hlo, artifacts.metaneff, compiler_workdir, flags, key)
            except Exception as error:
                raise RuntimeError("Compilation process failed") from error
            made.add(key, artifacts, compiled)
        return made

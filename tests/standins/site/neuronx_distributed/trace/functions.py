"""Stand-in for trace.functions; SDK document, section 3.4: trace, compile and shard_checkpoint, SPMD only."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from neuron_standin.lowering import lower
from neuron_standin.metaneff import MetaNeff
from safetensors.torch import save_file
from torch import Tensor, nn
from torch.utils import _pytree

from neuronx_distributed.parallel_layers import parallel_state
from neuronx_distributed.trace.buffer_states import assigned_buffers, states_as_parameters
from neuronx_distributed.trace.compiling import append_default_compiler_flags, compile_graph
from neuronx_distributed.trace.sharding import Checkpoint, get_sharded_checkpoint, preprocess_checkpoint


@dataclass(frozen=True)
class TraceArtifacts:
    """A lowered graph; `packer` is the structure of what forward returns, `names` those of its inputs."""

    hlo: bytes
    metaneff: MetaNeff
    packer: Any
    names: tuple[str, ...]
    shapes: tuple[tuple[int, ...], ...]


@dataclass(frozen=True)
class CompilationArtifacts:
    """Where the compiled graph is."""

    neff_filepath: str

    def get_neff_bytes(self) -> bytes:
        """The NEFF."""
        return Path(self.neff_filepath).read_bytes()


def trace(
    model: nn.Module,
    args: Tensor | tuple[Tensor, ...] | None = None,
    kwargs: dict[str, Tensor] | None = None,
    spmd: bool = True,
    preserve_parameters: bool = True,
    weights_to_skip_layout_optimization: set[str] | None = None,
) -> TraceArtifacts:
    """Lower `model`; buffers that forward assigns are states. ValueError or NotImplementedError for bad inputs."""
    if not spmd:
        raise NotImplementedError("only spmd=True is supported")
    given = _named(model.forward, args, kwargs)
    states, returned = assigned_buffers(model, tuple(given.values()))
    outputs, packer = _pytree.tree_flatten(returned)
    with states_as_parameters(model, states) as places:
        aliases = {parameter: len(outputs) + index for parameter, index in places.items()}
        lowered = lower(model, tuple(given.values()), aliases, preserve_parameters=preserve_parameters)
    shapes = tuple(tuple(one.shape) for one in given.values())
    return TraceArtifacts(lowered.hlo, lowered.metaneff, packer, tuple(given), shapes)


def compile(  # noqa: A001 - the SDK's name
    hlo_module: bytes,
    metaneff: MetaNeff,
    compiler_workdir: str | Path | None = None,
    compiler_args: str | None = None,
    key: str | None = None,
) -> CompilationArtifacts:
    """Compile without the cache; by default under /tmp/nxd_models, in a folder named by the time."""
    root = Path(compiler_workdir or f"/tmp/nxd_models/{datetime.now(UTC):%Y%m%d%H%M%S%f}")
    folder = root / (key or "model")
    compile_graph(hlo_module, metaneff, append_default_compiler_flags(compiler_args), folder, use_cache=False)
    return CompilationArtifacts(str(folder / "graph.neff"))


def shard_checkpoint(
    checkpoint: Checkpoint,
    model: nn.Module,
    start_rank: int | None = None,
    end_rank: int | None = None,
    load_on_device: bool = False,
    serialize_path: str | None = None,
) -> list[Checkpoint]:
    """Every rank's weights from `start_rank` to `end_rank`, which is included; changes the dict it is given."""
    tp = parallel_state.get_tensor_model_parallel_size()
    ranks = range(start_rank or 0, (tp - 1 if end_rank is None else end_rank) + 1)
    if load_on_device:
        raise NotImplementedError("stand-in: load_on_device is not stood in for")
    preprocess_checkpoint(model, checkpoint)
    sharded = [dict(checkpoint) for _ in ranks]
    for rank, values in zip(ranks, sharded, strict=True):
        get_sharded_checkpoint(values, model, rank, tp, is_cached=True)
        if serialize_path is not None:
            Path(serialize_path).mkdir(parents=True, exist_ok=True)
            file = Path(serialize_path) / f"tp{rank}_sharded_checkpoint.safetensors"
            save_file({name: one.contiguous() for name, one in values.items()}, file)
    return sharded


def _named(
    forward: Callable[..., Any], args: Tensor | tuple[Tensor, ...] | None, kwargs: dict[str, Tensor] | None
) -> dict[str, Tensor]:
    """The inputs by the names that forward gives them, in its order."""
    parameters = inspect.signature(forward).parameters
    if any(one.kind in {one.VAR_POSITIONAL, one.VAR_KEYWORD} for one in parameters.values()):
        raise NotImplementedError("Methods with *args or **kwargs are not supported.")
    for name, one in parameters.items():
        if one.default not in {one.empty, None}:
            raise ValueError(f"Parameter '{name}' has a non-None default value: {one.default}.")
    positional = (args,) if isinstance(args, Tensor) else args or ()
    given = {**dict(zip(parameters, positional, strict=False)), **(kwargs or {})}
    if unexpected := set(given) - set(parameters):
        raise ValueError(f"Found unexpected keys in kwargs: {unexpected}.")
    if missing := [n for n, one in parameters.items() if one.default is one.empty and n not in given]:
        raise ValueError(f"Missing required parameters: {missing}.")
    return {name: given[name] for name in parameters if name in given}

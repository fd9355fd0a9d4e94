"""torch_neuronx.trace and the two functions NxD builds on (sections 2.1, 2.2, 2.4, 2.5)."""

from __future__ import annotations

import tempfile
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from neuron_standin import options, runtime
from neuron_standin.lowering import Lowered, flat_inputs, lower
from neuron_standin.metaneff import MetaNeff
from torch import Tensor, nn

from torch_neuronx.model import Compiled, create_neuron_model
from torch_neuronx.partitioner import PartitionerConfig
from torch_neuronx.utils.utils import get_platform_target, target_argument
from torch_neuronx.xla_impl.compilation import (
    get_compile_command,
    run_compiler,
    save_compile_command,
    setup_compiler_dirs,
)

__all__ = [
    "HloArtifacts",
    "NeffArtifacts",
    "create_neuron_model",
    "generate_hlo",
    "generate_neff",
    "get_compile_command",
    "save_compile_command",
    "setup_compiler_dirs",
    "trace",
]

Function = nn.Module | Callable[..., Any]


@dataclass(frozen=True)
class HloModule:
    """Stands for the HloModuleProto object; only its bytes are offered."""

    data: bytes

    def SerializeToString(self) -> bytes:  # noqa: N802 - the name protocol buffers give it
        """The serialized module."""
        return self.data


@dataclass
class HloArtifacts:
    """The documented fields; `weights` by name when asked for, `constant_parameter_tensors` by HLO parameter."""

    hlo_module: HloModule
    flattener: Callable[[Any], list[Tensor]]
    packer: Any
    metaneff: MetaNeff
    weights: dict[str, Tensor] | None
    constant_parameter_tensors: dict[int, Tensor]
    weight_name_to_idx: dict[str, int]


@dataclass(frozen=True)
class NeffArtifacts:
    """Where the compiled graph is."""

    neff_filename: str


def generate_hlo(
    model: Function,
    example_inputs: Any,
    aliases: Mapping[nn.Parameter, int] | None = None,
    inline_weights_to_neff: bool = False,
    return_weights: bool = False,
    output_aliased_tensor: bool = False,
    cpu_backend: bool = False,
    preserve_parameters: bool = False,
    enable_aliasing: bool = False,
    treat_inputs_as_kwargs: bool = False,
) -> HloArtifacts:
    """Lower `model`; RuntimeError without a device unless `cpu_backend`."""
    if enable_aliasing or treat_inputs_as_kwargs:
        raise NotImplementedError("stand-in: enable_aliasing and treat_inputs_as_kwargs belong to ModelBuilderV2")
    if not cpu_backend or options.cpu_trace_needs_device():
        runtime.init()
    lowered: Lowered = lower(model, example_inputs, aliases, preserve_parameters=preserve_parameters)
    slots = lowered.metaneff.parameters
    numbers = {slot.name: number for number, slot in enumerate(slots) if slot.kind == "weight"}
    parameters = model.named_parameters() if isinstance(model, nn.Module) else ()
    values: dict[str, Tensor] = {name: one for name, one in parameters if name in numbers}
    return HloArtifacts(
        hlo_module=HloModule(lowered.hlo),
        flattener=flat_inputs,
        packer=lowered.output_spec,
        metaneff=lowered.metaneff,
        weights=values if return_weights else None,
        constant_parameter_tensors={numbers[n]: one for n, one in values.items()} if inline_weights_to_neff else {},
        weight_name_to_idx=numbers,
    )


def generate_neff(
    hlo_artifacts: HloArtifacts,
    compiler_workdir: str | Path,
    compiler_args: str | Sequence[str] | None = None,
    inline_weights_to_neff: bool = False,
) -> NeffArtifacts:
    """Compile in `compiler_workdir`, which is left with model/, command.txt, graph.neff, metaneff and the log."""
    constants = hlo_artifacts.constant_parameter_tensors if inline_weights_to_neff else {}
    model = setup_compiler_dirs(hlo_artifacts.hlo_module.SerializeToString(), compiler_workdir, constants)
    command = get_compile_command(model, compiler_workdir, compiler_args)
    save_compile_command(command, compiler_workdir)
    run_compiler(command)
    metaneff = hlo_artifacts.metaneff
    data = metaneff if isinstance(metaneff, bytes) else metaneff.SerializeToString()
    Path(compiler_workdir, "metaneff").write_bytes(data)
    return NeffArtifacts(str(Path(compiler_workdir).absolute() / "graph.neff"))


def compile_model(
    func: Function,
    example_inputs: Any,
    aliases: Mapping[nn.Parameter, int],
    compiler_workdir: str | Path,
    compiler_args: str | Sequence[str] | None,
    inline_weights_to_neff: bool,
    cpu_backend: bool,
) -> Compiled:
    """Lower and compile: the part of a trace that each rank of parallel_model_trace does on its own."""
    artifacts = generate_hlo(
        func,
        example_inputs,
        aliases,
        inline_weights_to_neff=inline_weights_to_neff,
        return_weights=True,
        cpu_backend=cpu_backend,
    )
    neff = generate_neff(artifacts, compiler_workdir, compiler_args, inline_weights_to_neff)
    parameters = dict(func.named_parameters()) if isinstance(func, nn.Module) else {}
    weights = {} if inline_weights_to_neff else artifacts.weights or {}
    return Compiled(
        neff=Path(neff.neff_filename).read_bytes(),
        metaneff=artifacts.metaneff,
        output_spec=artifacts.packer,
        weights=[weights[name].detach() for name in artifacts.weight_name_to_idx if name in weights],
        states=[parameters[slot.name].detach() for slot in artifacts.metaneff.states()],
    )


def trace(
    func: Function,
    example_inputs: Any,
    *_: Any,
    input_output_aliases: Mapping[nn.Parameter, int] = {},
    compiler_workdir: str | Path | None = None,
    compiler_args: str | list[str] | None = None,
    partitioner_config: PartitionerConfig | None = None,
    inline_weights_to_neff: bool = True,
    cpu_backend: bool = False,
) -> torch.jit.ScriptModule:
    """A ScriptModule around one compiled graph; see section 2.1 for the arguments.

    ValueError, TypeError or RuntimeError for what the documentation forbids, and when the compiler fails.
    """
    if _:
        warnings.warn("positional arguments after example_inputs are deprecated", DeprecationWarning, stacklevel=2)
        raise TypeError(f"stand-in: name the {len(_)} arguments after example_inputs")
    if partitioner_config is not None and not isinstance(partitioner_config, PartitionerConfig):
        raise TypeError(f"partitioner_config is {type(partitioner_config).__name__}, not PartitionerConfig")
    get_platform_target(compiler_args)
    if cpu_backend and not target_argument(compiler_args):
        raise ValueError("cpu_backend=True needs --target in compiler_args")
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(compiler_workdir) if compiler_workdir is not None else Path(temporary)
        compiled = compile_model(
            func, example_inputs, input_output_aliases, folder, compiler_args, inline_weights_to_neff, cpu_backend
        )
    return create_neuron_model(compiled, example_inputs)
